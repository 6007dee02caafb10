/* gd2fs_fio: fio's requests as requests of libgd2fs; one context per job.
 *
 * An external engine for exactly the fio whose headers it was built with:
 * `ioengine=external:build/fio/gd2fs.so`. A job's file is the file of that path in the cluster; it
 * is made when a job that writes finds it missing. Without an option GD2FS_CPADDR, GD2FS_DPADDR and
 * GD2FS_CLUSTER of the environment count; what libgd2fs reads of it counts too.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <string.h>

#include <fio.h>
#include <optgroup.h>
#include <xfer/gd2fs.h>

#define TIMEOUT_MS 60000 /* of a request: large ones on a slow network are figures too */

#define HUGE_BYTES ((size_t)2 << 20)

struct engine_options {
  void* job; /* fio's own, it has to come first */
  char* cpaddr;
  char* dpaddr;
  char* cluster;
  char* log_level;
  unsigned int iothreads;
  unsigned int memthreads;
  unsigned int streams;
  unsigned int timeout_ms;
};

/* One job. `ended` holds what the last `getevents` took, `iodepth` at most. */
struct engine_job {
  xfer_gd2fs_ctx* ctx;
  xfer_gd2fs_iomem* iomem;
  xfer_gd2fs_completion* ended;
};

/* The short name, and the one that published job files use. */
#define OPTION(short_name, long_name, kind, field, text)                                        \
  {                                                                                             \
    .name = short_name, .lname = long_name, .alias = long_name, .type = kind,                   \
    .off1 = offsetof(struct engine_options, field), .help = text, .category = FIO_OPT_C_ENGINE, \
    .group = FIO_OPT_G_INVALID,                                                                 \
  }

static struct fio_option options[] = {
    OPTION("cpaddr", "gd2fs-cpaddr", FIO_OPT_STR_STORE, cpaddr, "Nodes: gd2fs://HOST:7527,..."),
    OPTION("dpaddr", "gd2fs-dpaddr", FIO_OPT_STR_STORE, dpaddr, "Own addresses: tcp://IP,..."),
    OPTION("cluster", "gd2fs-cluster", FIO_OPT_STR_STORE, cluster, "Name of the cluster"),
    OPTION("log_level", "gd2fs-log-level", FIO_OPT_STR_STORE, log_level, "info, warn or error"),
    OPTION("iothreads", "gd2fs-io-threads", FIO_OPT_INT, iothreads, "Threads that move bytes"),
    OPTION("memthreads", "gd2fs-mem-threads", FIO_OPT_INT, memthreads, "Threads for memory"),
    OPTION("streams", "gd2fs-substreams", FIO_OPT_INT, streams, "Connections to each node"),
    OPTION("timeout_ms", "gd2fs-timeout", FIO_OPT_INT, timeout_ms, "Deadline of a request in ms"),
    {.name = NULL},
};

static const char* option_or(const char* option, const char* variable) {
  return option != NULL ? option : getenv(variable);
}

/* The size of a file is asked for when it is opened: a job before this one may make it. */
static int engine_setup(struct thread_data* td) {
  (void)td;
  return 0;
}

static int engine_init(struct thread_data* td) {
  const struct engine_options* const asked = td->eo;
  struct engine_job* const job = calloc(1, sizeof *job);
  xfer_gd2fs_options wanted;
  if (job == NULL) return ENOMEM;
  memset(&wanted, 0, sizeof wanted);
  wanted.cp_address = option_or(asked->cpaddr, "GD2FS_CPADDR");
  wanted.dp_address = option_or(asked->dpaddr, "GD2FS_DPADDR");
  wanted.cluster_id = option_or(asked->cluster, "GD2FS_CLUSTER");
  wanted.log_level = asked->log_level;
  wanted.iothread_count = asked->iothreads;
  wanted.memthread_count = asked->memthreads;
  wanted.conn_stream_count = asked->streams;
  wanted.timeout = asked->timeout_ms != 0 ? asked->timeout_ms : TIMEOUT_MS;
  td->io_ops_data = job;
  job->ended = calloc(td->o.iodepth, sizeof *job->ended);
  if (job->ended == NULL) return ENOMEM;
  job->ctx = xfer_gd2fs_connect(&wanted);
  return job->ctx != NULL ? 0 : EHOSTUNREACH; /* stderr says why */
}

/* On huge pages where they can be had, as an engine's pool is: copies into small ones cost a third
   more. */
static int engine_iomem_alloc(struct thread_data* td, size_t bytes) {
  const size_t whole = (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
  void* memory = NULL;
  const int fault = posix_memalign(&memory, HUGE_BYTES, whole);
  if (fault != 0) return fault;
  (void)madvise(memory, whole, MADV_HUGEPAGE); /* refused: small pages, then */
  td->orig_buffer = memory;
  return 0;
}

static void engine_iomem_free(struct thread_data* td) {
  free(td->orig_buffer);
  td->orig_buffer = NULL;
}

/* fio has its buffers now. */
static int engine_post_init(struct thread_data* td) {
  struct engine_job* const job = td->io_ops_data;
  if (td->orig_buffer == NULL || td->orig_buffer_size == 0) return 0;
  job->iomem = xfer_gd2fs_reg_iomem(job->ctx, td->orig_buffer, td->orig_buffer_size, NULL);
  return job->iomem != NULL ? 0 : EFAULT;
}

static void engine_cleanup(struct thread_data* td) {
  struct engine_job* const job = td->io_ops_data;
  if (job == NULL) return;
  xfer_gd2fs_close(job->ctx);
  free(job->ended);
  free(job);
  td->io_ops_data = NULL;
}

/* The code of the only request under way, which `started` is the answer of. */
static int finish(struct engine_job* job, int started) {
  xfer_gd2fs_completion ended;
  int count;
  if (started < 0) return -started;
  count = xfer_gd2fs_wait(job->ctx, &ended, 1, -1); /* its deadline bounds it */
  return count < 0 ? -count : XFER_GD2FS_STATUS_CODE(ended.status);
}

static int open_fault(struct thread_data* td, struct fio_file* file, int code, const char* what) {
  const char* const hint = code == ENOENT ? "; run a job that writes it first" : "";
  log_err("gd2fs: %s `%s`: %s%s\n", what, file->file_name, strerror(code), hint);
  td_verror(td, code, "gd2fs open");
  return code;
}

static int engine_open_file(struct thread_data* td, struct fio_file* file) {
  struct engine_job* const job = td->io_ops_data;
  const uint64_t end = file->file_offset + file->io_size;
  xfer_gd2fs_stat stat = {0};
  int code = finish(job, xfer_gd2fs_fstat(job->ctx, file, file->file_name, &stat));
  if (code == ENOENT && td_write(td)) {
    code = finish(job, xfer_gd2fs_create(job->ctx, file, file->file_name, 0, end));
    if (code != 0) return open_fault(td, file, code, "cannot make");
  } else if (code != 0) {
    return open_fault(td, file, code, "cannot open");
  }
  if (!td_write(td) && stat.size < end) {
    log_err("gd2fs: `%s` has %llu bytes, the job reads %llu: write it first\n", file->file_name,
            (unsigned long long)stat.size, (unsigned long long)end);
    return open_fault(td, file, ENODATA, "cannot read");
  }
  file->real_file_size = stat.size > end ? stat.size : end;
  return 0;
}

static int engine_close_file(struct thread_data* td, struct fio_file* file) {
  (void)td;
  (void)file;
  return 0;
}

/* Without it fio would remove the local file of this name. */
static int engine_unlink_file(struct thread_data* td, struct fio_file* file) {
  (void)td;
  log_err("gd2fs: `%s` stays: use `gd2fs rm`\n", file->file_name);
  return EOPNOTSUPP;
}

static enum fio_q_status engine_queue(struct thread_data* td, struct io_u* io_u) {
  struct engine_job* const job = td->io_ops_data;
  const char* const path = io_u->file->file_name;
  xfer_gd2fs_sge sge;
  ssize_t started = -EOPNOTSUPP;
  fio_ro_check(td, io_u);
  if (ddir_sync(io_u->ddir)) return FIO_Q_COMPLETED; /* a write that ended is seen by all */
  sge.addr = io_u->xfer_buf;
  sge.len = io_u->xfer_buflen;
  sge.iomem = job->iomem;
  if (io_u->ddir == DDIR_READ)
    started = xfer_gd2fs_preadv(job->ctx, io_u, path, io_u->offset, &sge, 1, 0);
  else if (io_u->ddir == DDIR_WRITE)
    started = xfer_gd2fs_pwritev(job->ctx, io_u, path, io_u->offset, &sge, 1, 0);
  if (started >= 0) return FIO_Q_QUEUED;
  io_u->error = (unsigned int)-started;
  td_verror(td, (int)-started, "gd2fs queue");
  return FIO_Q_COMPLETED;
}

static int milliseconds_of(const struct timespec* time) {
  if (time == NULL) return -1;
  return (int)(time->tv_sec * 1000 + (time->tv_nsec + 999999) / 1000000);
}

/* At least `min`, unless the time passes for one of them. */
static int engine_getevents(struct thread_data* td, unsigned int min, unsigned int max,
                            const struct timespec* time) {
  struct engine_job* const job = td->io_ops_data;
  unsigned int count = 0;
  if (max > td->o.iodepth) max = td->o.iodepth;
  do {
    const int timeout_ms = min == 0 ? 0 : milliseconds_of(time);
    const int more = xfer_gd2fs_wait(job->ctx, job->ended + count, max - count, timeout_ms);
    if (more < 0) return more;
    if (more == 0) break;
    count += (unsigned int)more;
  } while (count < min);
  return (int)count;
}

static struct io_u* engine_event(struct thread_data* td, int event) {
  const struct engine_job* const job = td->io_ops_data;
  const xfer_gd2fs_completion* const ended = &job->ended[event];
  struct io_u* const io_u = ended->id;
  io_u->error = XFER_GD2FS_STATUS_CODE(ended->status);
  io_u->resid = io_u->error != 0 ? io_u->xfer_buflen : 0;
  return io_u;
}

struct ioengine_ops ioengine = {
    .name = "gd2fs",
    .version = FIO_IOOPS_VERSION,
    .flags = FIO_DISKLESSIO | FIO_NODISKUTIL,
    .setup = engine_setup,
    .init = engine_init,
    .post_init = engine_post_init,
    .cleanup = engine_cleanup,
    .iomem_alloc = engine_iomem_alloc,
    .iomem_free = engine_iomem_free,
    .open_file = engine_open_file,
    .close_file = engine_close_file,
    .unlink_file = engine_unlink_file,
    .queue = engine_queue,
    .getevents = engine_getevents,
    .event = engine_event,
    .option_struct_size = sizeof(struct engine_options),
    .options = options,
};
