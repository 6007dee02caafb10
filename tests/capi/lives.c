/* Lives: contexts that are closed early, and threads. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "properties.h"
#include "session.h"

#define DEPTH 8
#define PIECE ((size_t)4 << 20)
#define ROUNDS 20

static void start_writes(struct session* session, const char* path) {
  unsigned each;
  for (each = 0; each < DEPTH; ++each) {
    xfer_gd2fs_sge sge = session_sge(session, each * PIECE, PIECE);
    CHECK(xfer_gd2fs_pwritev(session->ctx, NULL, path, each * PIECE, &sge, 1, 0) == 0);
  }
}

static int open_descriptors(void) {
  int descriptor, count = 0;
  for (descriptor = 0; descriptor < 1024; ++descriptor)
    if (fcntl(descriptor, F_GETFD) != -1) ++count;
  return count;
}

/* The memory goes right after: nothing may touch it any more. */
void close_ends_what_is_under_way(void) {
  const int before = open_descriptors();
  unsigned round;
  for (round = 0; round < 5; ++round) {
    struct session session = session_open(DEPTH * PIECE);
    memset(session.memory, 1, DEPTH * PIECE);
    CHECK(session_create(&session, "/capi/closed") == 0);
    start_writes(&session, "/capi/closed");
    xfer_gd2fs_close(session.ctx);
    memset(session.memory, 2, DEPTH * PIECE);
    free(session.memory);
  }
  CHECK(open_descriptors() == before);
}

/* A child has the context's memory, but none of its threads. */
void child_of_fork_is_refused(void) {
  struct session session = session_open(4096);
  xfer_gd2fs_completion ended;
  pid_t child;
  int status;
  CHECK(xfer_gd2fs_create(session.ctx, &session, "/capi/forked", 0, 0) == 0);
  child = fork();
  if (child == 0) {
    CHECK(xfer_gd2fs_create(session.ctx, NULL, "/capi/forked", 0, 0) == -EINVAL);
    CHECK(xfer_gd2fs_wait(session.ctx, &ended, 1, -1) == -EINVAL);
    CHECK(xfer_gd2fs_reg_iomem(session.ctx, session.memory, 1, NULL) == NULL);
    xfer_gd2fs_close(session.ctx);
    _exit(0);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  CHECK(session_finish(&session, &session).status == 0);
  session_close(&session);
}

/* This thread blocks a signal that would end the process: so no other thread may take it. */
void signals_are_left_to_the_program(void) {
  struct session session = session_open(4096);
  sigset_t mask, pending;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR1);
  CHECK(pthread_sigmask(SIG_BLOCK, &mask, NULL) == 0);
  CHECK(kill(getpid(), SIGUSR1) == 0);
  CHECK(session_create(&session, "/capi/signals") == 0);
  CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1);
  session_close(&session);
}

struct waiter {
  xfer_gd2fs_ctx* ctx;
  int answer;
};

static void* wait_for_ever(void* argument) {
  struct waiter* const waiter = argument;
  xfer_gd2fs_completion ended;
  do {
    waiter->answer = xfer_gd2fs_wait(waiter->ctx, &ended, 1, -1);
  } while (waiter->answer == 1);
  return NULL;
}

/* The thread takes a request first: then it is on its way back to the wait. */
void close_wakes_a_waiting_thread(void) {
  struct session session = session_open(4096);
  xfer_gd2fs_sge sge = session_sge(&session, 0, 4096);
  struct waiter waiter = {NULL, 0};
  pthread_t thread;
  waiter.ctx = session.ctx;
  memset(session.memory, 1, 4096);
  CHECK(session_create(&session, "/capi/woken") == 0);
  CHECK(xfer_gd2fs_pwritev(session.ctx, &waiter, "/capi/woken", 0, &sge, 1, 0) == 0);
  CHECK(pthread_create(&thread, NULL, wait_for_ever, &waiter) == 0);
  while (xfer_gd2fs_dereg_iomem(session.ctx, session.iomem) == -EBUSY) sched_yield();
  xfer_gd2fs_close(session.ctx);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(waiter.answer == -ECANCELED);
  free(session.memory);
}

static void go_round(struct session* session, const char* path, unsigned seed) {
  const size_t half = session->bytes / 2;
  unsigned round;
  CHECK(session_create(session, path) == 0);
  for (round = 0; round < ROUNDS; ++round) {
    fill(session->memory, half, seed + round);
    CHECK(session_write(session, path, round * 1000, 0, half) == 0);
    CHECK(session_read(session, path, round * 1000, half, half) == 0);
    CHECK(memcmp(session->memory, session->memory + half, half) == 0);
  }
}

static void* own_context(void* argument) {
  const unsigned number = *(unsigned*)argument;
  struct session session = session_open(600000);
  char path[32];
  snprintf(path, sizeof path, "/capi/thread-%u", number);
  go_round(&session, path, number * 1000);
  session_close(&session);
  return NULL;
}

void contexts_serve_their_own_threads(void) {
  unsigned numbers[2] = {1, 2};
  pthread_t threads[2];
  unsigned each;
  for (each = 0; each < 2; ++each)
    CHECK(pthread_create(&threads[each], NULL, own_context, &numbers[each]) == 0);
  for (each = 0; each < 2; ++each) CHECK(pthread_join(threads[each], NULL) == 0);
}

struct sharer {
  struct session* session;
  unsigned ended;
};

/* Starts as many as it takes out, whoever started those. */
static void* share(void* argument) {
  struct sharer* const sharer = argument;
  xfer_gd2fs_completion ended;
  unsigned round;
  for (round = 0; round < 200; ++round) {
    CHECK(xfer_gd2fs_create(sharer->session->ctx, sharer, "/capi/shared", 0, 0) == 0);
    CHECK(xfer_gd2fs_wait(sharer->session->ctx, &ended, 1, PATIENCE_MS) == 1);
    CHECK(ended.status == 0);
    ++sharer->ended;
  }
  return NULL;
}

void threads_share_a_context(void) {
  struct session session = session_open(4096);
  struct sharer sharers[4];
  pthread_t threads[4];
  xfer_gd2fs_completion ended;
  unsigned each, total = 0;
  for (each = 0; each < 4; ++each) {
    sharers[each].session = &session;
    sharers[each].ended = 0;
    CHECK(pthread_create(&threads[each], NULL, share, &sharers[each]) == 0);
  }
  for (each = 0; each < 4; ++each) {
    CHECK(pthread_join(threads[each], NULL) == 0);
    total += sharers[each].ended;
  }
  CHECK(total == 800);
  CHECK(xfer_gd2fs_wait(session.ctx, &ended, 1, 0) == 0);
  session_close(&session);
}

/* NODE_PID is stopped: requests end by their deadline, and a close does not wait for it. */
void stopped_node_costs_one_deadline(void) {
  const pid_t node = (pid_t)strtol(getenv("NODE_PID"), NULL, 10);
  xfer_gd2fs_options options = session_options();
  struct session session = session_open(DEPTH * PIECE);
  xfer_gd2fs_completion ended;
  xfer_gd2fs_stat stat;
  options.timeout = 300;
  options.log_level = "error";
  CHECK(session_create(&session, "/capi/stopped") == 0);
  xfer_gd2fs_close(session.ctx);
  session.ctx = xfer_gd2fs_connect(&options);
  session.iomem = xfer_gd2fs_reg_iomem(session.ctx, session.memory, session.bytes, NULL);
  CHECK(node > 0 && kill(node, SIGSTOP) == 0);
  do { /* until the signal has reached all threads of the node */
    CHECK(xfer_gd2fs_fstat(session.ctx, &stat, "/capi/stopped", &stat) == 0);
    CHECK(xfer_gd2fs_wait(session.ctx, &ended, 1, -1) == 1);
  } while (ended.status == 0);
  CHECK(XFER_GD2FS_STATUS_CODE(ended.status) == ETIMEDOUT ||
        XFER_GD2FS_STATUS_CODE(ended.status) == EHOSTUNREACH);
  CHECK(XFER_GD2FS_STATUS_CLASS(ended.status) == XFER_GD2FS_STATUS_CLASS_CLIENT);
  start_writes(&session, "/capi/stopped");
  xfer_gd2fs_close(session.ctx);
  CHECK(kill(node, SIGCONT) == 0);
  free(session.memory);
}
