/* Fake CUDA: the part of NVIDIA's driver that is used here, on memory of the host.
 *
 * Addresses of its "device" cannot be touched: they are mapped without any right, so whoever takes
 * one for memory of the host ends the process. Copies are made by a thread of its own, later, as a
 * GPU makes them; calls can be told to fail. It watches its callers: a context has to be current,
 * and what is copied asynchronously has to be registered memory. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;

enum { DONE = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, NOT_READY = 600 };
enum { RANGES_MAX = 64, PAGE = 4096, DEVICES = 2 };

typedef struct Range {
  uintptr_t begin;
  size_t bytes;
  char *shadow; /* where the device's bytes really are; NULL: registered memory of the host */
  int device;
} Range;

typedef struct Step {
  enum { COPY, FILL, MARK } kind;
  char *to;
  const char *from;
  size_t bytes;
  int *reached;
  int is_spoiled;
  struct Step *next;
} Step;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static Range ranges[RANGES_MAX];
static Step *first, **last = &first;
static int pending, has_thread, is_initialized, is_strict;
static int stays_us, is_held;
static const char *failing;
static int failing_after, failing_with;
static long copies_in, copies_out, faults, in_flight_max, flushes;
static int is_open, is_spoiling, ordering = 100;
static _Thread_local int depth;
static _Thread_local int is_known_thread;

/* ---- what tests say and ask ---------------------------------------------------------- */

/* Each copy takes so long. */
void fake_cuda_slow(int microseconds) { stays_us = microseconds; }
/* Nothing is copied until it is let go. */
void fake_cuda_hold(int held) {
  pthread_mutex_lock(&mutex);
  is_held = held;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}
/* After so many more calls of this name one fails with this status; below 0: all do. */
void fake_cuda_fail(const char *call, int after, int status) {
  pthread_mutex_lock(&mutex);
  failing = call;
  failing_after = after;
  failing_with = status;
  pthread_mutex_unlock(&mutex);
}
/* Threads without a current context are told nothing about pointers. */
void fake_cuda_strict(int strict) { is_strict = strict; }
/* Memory that is allocated from here on may be touched by whoever has its address, as cards may. */
void fake_cuda_open(int open) { is_open = open; }
/* Whether the device sees what cards write by itself: 100; 0: once it is flushed; below: never. */
void fake_cuda_order(int order) { ordering = order; }
/* The first byte of what is copied out is another one. */
void fake_cuda_spoil(int spoil) { is_spoiling = spoil; }
long fake_cuda_flushes(void) { return flushes; }
long fake_cuda_copies_in(void) { return copies_in; }
long fake_cuda_copies_out(void) { return copies_out; }
/* Calls that a real driver refuses, or that cost a copy more. */
long fake_cuda_faults(void) { return faults; }
/* Copies and events that wait. */
int fake_cuda_pending(void) {
  pthread_mutex_lock(&mutex);
  const int count = pending;
  pthread_mutex_unlock(&mutex);
  return count;
}

/* ---- within ---------------------------------------------------------------------------- */

static CUresult passes(const char *call) { /* with the mutex held */
  if (failing == NULL || strcmp(failing, call) != 0) return DONE;
  if (failing_after > 0) return --failing_after, DONE;
  if (failing_after == 0) failing = NULL;
  return failing_with;
}

static Range *range_of(uintptr_t at, size_t bytes) {
  for (int index = 0; index < RANGES_MAX; ++index) {
    Range *range = &ranges[index];
    if (range->bytes != 0 && at >= range->begin && at - range->begin <= range->bytes &&
        bytes <= range->bytes - (at - range->begin))
      return range;
  }
  return NULL;
}

static Range *new_range(void) {
  for (int index = 0; index < RANGES_MAX; ++index)
    if (ranges[index].bytes == 0) return &ranges[index];
  return NULL;
}

static void *work(void *unused) {
  (void)unused;
  pthread_mutex_lock(&mutex);
  for (;;) {
    while (first == NULL || is_held) pthread_cond_wait(&changed, &mutex);
    Step *step = first;
    pthread_mutex_unlock(&mutex);
    if (step->kind != MARK && stays_us != 0) usleep((unsigned)stays_us);
    pthread_mutex_lock(&mutex);
    if (step->kind == COPY) memcpy(step->to, step->from, step->bytes);
    if (step->is_spoiled) *step->to ^= 1;
    if (step->kind == FILL) memset(step->to, 0, step->bytes);
    if (step->kind == MARK) *step->reached = 1;
    first = step->next;
    if (first == NULL) last = &first;
    --pending;
    free(step);
    pthread_cond_broadcast(&changed);
  }
  return NULL;
}

static void enqueue(Step made) { /* with the mutex held */
  Step *step = malloc(sizeof *step);
  *step = made;
  step->next = NULL;
  *last = step;
  last = &step->next;
  if (++pending > in_flight_max) in_flight_max = pending;
  if (!has_thread) {
    pthread_t thread;
    has_thread = pthread_create(&thread, NULL, work, NULL) == 0;
    pthread_detach(thread);
  }
  pthread_cond_broadcast(&changed);
}

static CUresult copy(const char *call, CUdeviceptr device, char *host, size_t bytes, int is_in) {
  pthread_mutex_lock(&mutex);
  CUresult result = passes(call);
  Range *range = range_of((uintptr_t)device, bytes);
  Range *registered = range_of((uintptr_t)host, bytes);
  if (depth == 0 || registered == NULL || registered->shadow != NULL) ++faults;
  if (result == DONE && depth == 0) result = INVALID_CONTEXT;
  if (result == DONE && (range == NULL || range->shadow == NULL)) result = INVALID_VALUE;
  if (result == DONE) {
    char *shadow = range->shadow + ((uintptr_t)device - range->begin);
    ++*(is_in ? &copies_in : &copies_out);
    const int is_spoiled = is_spoiling && !is_in && bytes != 0;
    char *to = is_in ? shadow : host, *from = is_in ? host : shadow;
    enqueue((Step){COPY, to, from, bytes, NULL, is_spoiled, NULL});
  }
  pthread_mutex_unlock(&mutex);
  return result;
}

static CUresult drain(void) {
  pthread_mutex_lock(&mutex);
  while (pending != 0) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
  return DONE;
}

/* ---- the driver's interface ------------------------------------------------------------- */

CUresult cuInit(unsigned flags) {
  (void)flags;
  is_initialized = 1;
  return DONE;
}
CUresult cuDeviceGetCount(int *count) {
  *count = DEVICES;
  return DONE;
}
CUresult cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *is_active) {
  *flags = 0;
  *is_active = device == 0;
  return DONE;
}
CUresult cuDevicePrimaryCtxRetain(void **context, int device) {
  pthread_mutex_lock(&mutex);
  const CUresult result = passes("cuDevicePrimaryCtxRetain");
  pthread_mutex_unlock(&mutex);
  *context = (void *)(uintptr_t)(device + 1);
  return result;
}
CUresult cuDevicePrimaryCtxRelease_v2(int device) {
  return device < DEVICES ? DONE : INVALID_VALUE;
}
CUresult cuCtxPushCurrent_v2(void *context) {
  ++depth;
  return context != NULL ? DONE : INVALID_VALUE;
}
CUresult cuCtxPopCurrent_v2(void **context) {
  *context = (void *)1;
  return --depth >= 0 ? DONE : INVALID_CONTEXT;
}
CUresult cuStreamCreate(void **stream, unsigned flags) {
  (void)flags;
  *stream = (void *)1;
  return depth > 0 ? DONE : INVALID_CONTEXT;
}
CUresult cuStreamDestroy_v2(void *stream) { return stream != NULL ? DONE : INVALID_VALUE; }
CUresult cuStreamSynchronize(void *stream) {
  (void)stream;
  return drain();
}
CUresult cuEventCreate(void **event, unsigned flags) {
  (void)flags;
  pthread_mutex_lock(&mutex);
  const CUresult result = passes("cuEventCreate");
  pthread_mutex_unlock(&mutex);
  *event = result == DONE ? calloc(1, sizeof(int)) : NULL;
  return result;
}
CUresult cuEventDestroy_v2(void *event) {
  free(event);
  return DONE;
}
CUresult cuEventRecord(void *event, void *stream) {
  (void)stream;
  pthread_mutex_lock(&mutex);
  enqueue((Step){MARK, NULL, NULL, 0, event, 0, NULL});
  pthread_mutex_unlock(&mutex);
  return DONE;
}
CUresult cuEventQuery(void *event) {
  pthread_mutex_lock(&mutex);
  const CUresult result = *(int *)event ? passes("cuEventQuery") : NOT_READY;
  pthread_mutex_unlock(&mutex);
  return result;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, void *stream) {
  (void)stream;
  return copy("cuMemcpyHtoDAsync", to, (char *)(uintptr_t)from, bytes, 1);
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, void *stream) {
  (void)stream;
  return copy("cuMemcpyDtoHAsync", from, to, bytes, 0);
}
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t count, void *stream) {
  (void)stream;
  pthread_mutex_lock(&mutex);
  Range *range = range_of((uintptr_t)at, count);
  const int is_fit = depth > 0 && value == 0 && range != NULL && range->shadow != NULL;
  char *shadow = is_fit ? range->shadow + ((uintptr_t)at - range->begin) : NULL;
  if (is_fit) enqueue((Step){FILL, shadow, NULL, count, NULL, 0, NULL});
  pthread_mutex_unlock(&mutex);
  return is_fit ? DONE : INVALID_VALUE;
}
/* 117: who can flush, 118: whether that is needed. */
CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == 118 && ordering > 0 ? ordering : attribute == 117 && ordering == 0;
  return device < DEVICES ? DONE : INVALID_VALUE;
}
CUresult cuFlushGPUDirectRDMAWrites(int target, int scope) {
  pthread_mutex_lock(&mutex);
  CUresult result = passes("cuFlushGPUDirectRDMAWrites");
  if (result == DONE && (target != 0 || scope != 100 || depth == 0)) result = INVALID_VALUE;
  if (result == DONE) ++flushes;
  pthread_mutex_unlock(&mutex);
  return result;
}
CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
  (void)flags;
  pthread_mutex_lock(&mutex);
  CUresult result = passes("cuMemHostRegister");
  Range *range = new_range();
  if (result == DONE && (depth == 0 || range == NULL)) result = INVALID_VALUE;
  if (result == DONE) *range = (Range){(uintptr_t)at, bytes, NULL, 0};
  pthread_mutex_unlock(&mutex);
  return result;
}
CUresult cuMemHostUnregister(void *at) {
  pthread_mutex_lock(&mutex);
  Range *range = range_of((uintptr_t)at, 1);
  if (range != NULL) range->bytes = 0;
  pthread_mutex_unlock(&mutex);
  return range != NULL ? DONE : INVALID_VALUE;
}
CUresult cuGetErrorName(CUresult status, const char **name) {
  *name = status == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OF_A_TEST";
  return DONE;
}

/* As the driver's: of memory that it does not know all values are 0, and that is no error. */
CUresult cuPointerGetAttributes(unsigned count, int *names, void **values, CUdeviceptr at) {
  if (!is_initialized) return NOT_INITIALIZED;
  if (is_strict && depth == 0) return INVALID_CONTEXT;
  pthread_mutex_lock(&mutex);
  Range *range = range_of((uintptr_t)at, 1);
  for (unsigned index = 0; index < count; ++index) {
    if (names[index] == 2) /* kind of memory: 1 of the host, 2 of a device */
      *(unsigned *)values[index] = range == NULL ? 0u : range->shadow != NULL ? 2u : 1u;
    if (names[index] == 9) *(int *)values[index] = range == NULL ? -2 : range->device;
    if (names[index] == 11) *(CUdeviceptr *)values[index] = range == NULL ? 0 : range->begin;
    if (names[index] == 12) *(size_t *)values[index] = range == NULL ? 0 : range->bytes;
  }
  pthread_mutex_unlock(&mutex);
  return DONE;
}

/* For tests, as for any program. */
CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes) {
  const size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
  const int rights = is_open ? PROT_READ | PROT_WRITE : PROT_NONE;
  void *mapped = mmap(NULL, whole, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  pthread_mutex_lock(&mutex);
  Range *range = new_range();
  char *shadow = is_open ? mapped : malloc(whole);
  if (range != NULL) *range = (Range){(uintptr_t)mapped, bytes, shadow, 0};
  pthread_mutex_unlock(&mutex);
  *at = (CUdeviceptr)(uintptr_t)mapped;
  return range != NULL && mapped != MAP_FAILED ? DONE : INVALID_VALUE;
}
CUresult cuMemFree_v2(CUdeviceptr at) {
  pthread_mutex_lock(&mutex);
  Range *range = range_of((uintptr_t)at, 1);
  if (range != NULL) {
    if (range->shadow != (char *)range->begin) free(range->shadow);
    munmap((void *)range->begin, (range->bytes + PAGE - 1) / PAGE * PAGE);
    range->bytes = 0;
  }
  pthread_mutex_unlock(&mutex);
  return DONE;
}
static CUresult copy_now(CUdeviceptr device, char *host, size_t bytes, int is_in) {
  pthread_mutex_lock(&mutex);
  Range *range = range_of((uintptr_t)device, bytes);
  if (range != NULL && range->shadow != NULL) {
    char *shadow = range->shadow + ((uintptr_t)device - range->begin);
    memcpy(is_in ? shadow : host, is_in ? host : shadow, bytes);
  }
  pthread_mutex_unlock(&mutex);
  return range != NULL ? DONE : INVALID_VALUE;
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  return copy_now(to, (char *)(uintptr_t)from, bytes, 1);
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  return copy_now(from, to, bytes, 0);
}
