/* libgd2fs: files of a GD2FS cluster from C and C++.
 *
 * A context is a client of one cluster. Requests are started by `xfer_gd2fs_fstat`, `_create`,
 * `_preadv` and `_pwritev`, which return at once, and are handed out by `xfer_gd2fs_wait`, each
 * once, in the order in which they end. Many may be under way at a time.
 *
 *   xfer_gd2fs_options options = {0};
 *   options.cp_address = "gd2fs://10.0.0.1:7527,gd2fs://10.0.0.2:7527";
 *   options.cluster_id = "gd2fs-cluster0";
 *   xfer_gd2fs_ctx *ctx = xfer_gd2fs_connect(&options);
 *
 * Paths are absolute: `/namespace/name`, where the name may have more slashes; at most 1,024 bytes.
 *
 * Errors. What cannot be started is answered at once by a negative errno, and nothing comes of it;
 * -EINVAL where the call breaks a rule, -EAGAIN where more than XFER_GD2FS_REQUESTS_MAX requests
 * are not taken yet, -ENOMEM. What was started ends with a status, see XFER_GD2FS_STATUS_CODE.
 *
 * Deadlines. Each request ends at the latest `timeout` after its start, whatever the nodes do.
 *
 * Threads. All functions may be called from any thread and at the same time on one context, but for
 * `xfer_gd2fs_close`, which is the last call on it. In a child of fork a context of its parent
 * answers -EINVAL or NULL, and its close does nothing: the child makes its own. The library's own
 * threads take no signals.
 */
#ifndef XFER_GD2FS_H
#define XFER_GD2FS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XFER_GD2FS_VERSION "0.1.0"

#define XFER_GD2FS_REQUESTS_MAX 65536u /* started and not taken yet, of one context */
#define XFER_GD2FS_SGES_MAX 65536u     /* of one request */

/* A client of one cluster, with its connections and threads. */
typedef struct xfer_gd2fs_ctx xfer_gd2fs_ctx;

/* Registered memory of this process. */
typedef struct xfer_gd2fs_iomem xfer_gd2fs_iomem;

/* How to reach a cluster. Zero it first: what is NULL or 0 has its default. Strings are copied.
 *
 * GD2FS_TRANSPORT of the environment says how nodes are talked to: `auto` (its default: a node of
 * this host by shared memory or its Unix socket, others over TCP), `shm`, `unix` or `tcp`. */
typedef struct xfer_gd2fs_options {
  /* `gd2fs://HOST:PORT,...`: nodes of which one has to live; port 7527 if left out */
  const char* cp_address;
  /* `tcp://LOCAL_IP,...`: own addresses to use; NULL: the system's choice. Loopback addresses are
   * no choice and count as left out */
  const char* dp_address;
  const char* cluster_id;     /* the cluster's name; a node of another one refuses */
  uint32_t iothread_count;    /* threads that move bytes, to 64; 0: GD2FS_IOTHREADS, else 2 */
  uint32_t memthread_count;   /* to 64; accepted, the I/O threads do this work; GD2FS_MEMTHREADS */
  uint32_t conn_stream_count; /* connections to each node, to 64; 0: GD2FS_STREAMS, else 2 */
  const char* log_level;      /* of lines on stderr: `info`, `warn`, `error`; NULL: `warn` */
  uint32_t timeout;           /* deadline of a request in ms; 0: 5,000 */
} xfer_gd2fs_options;

/* What a file is. */
typedef struct xfer_gd2fs_stat {
  uint64_t size; /* bytes */
} xfer_gd2fs_stat;

/* A piece of registered memory. */
typedef struct xfer_gd2fs_sge {
  void* addr; /* all of [addr, addr + len) lies in iomem */
  size_t len; /* bytes; 0 is passed over */
  xfer_gd2fs_iomem* iomem;
} xfer_gd2fs_sge;

/* A request that has ended. */
typedef struct xfer_gd2fs_completion {
  void* id;        /* the caller's own, as given at the start */
  uint32_t status; /* 0: success. Else see XFER_GD2FS_STATUS_CODE */
  uint64_t bytes;  /* read, written; also of a read that ended with ENODATA at the file's end */
} xfer_gd2fs_completion;

/* What a status says, as a uint8_t: 0, or an errno value:
 *
 *   ENOENT        there is no such file
 *   ENODATA       not all of the bytes asked for are there: evicted, lost or corrupt (`bytes` is
 *                 0 and nothing in the buffers counts), or they lie past the end of the file
 *                 (`bytes` says how many come before it; those are in place)
 *   ENOSPC        a node cannot take these bytes; they can never fit, or a limit is reached
 *   EAGAIN        others changed the same file meanwhile; nothing was written, try again
 *   ETIMEDOUT     the deadline passed
 *   EHOSTUNREACH  no node answered, or the connection was lost
 *   EIO           a write, or a create, of which is not known whether it happened
 *   EACCES        refused
 *   EINVAL        the request breaks a rule of the node
 *   ECANCELED     the context is being closed
 *
 * A write that failed otherwise than with EIO has changed nothing that a reader can see. */
#define XFER_GD2FS_STATUS_CODE(status) ((uint8_t)((status)&0xffu))

/* Who says so, as a uint8_t: one of XFER_GD2FS_STATUS_CLASS_*. */
#define XFER_GD2FS_STATUS_CLASS(status) ((uint8_t)(((status) >> 8) & 0xffu))
#define XFER_GD2FS_STATUS_CLASS_NONE 0u   /* success */
#define XFER_GD2FS_STATUS_CLASS_CLIENT 1u /* this library: no answer, no time left, closed */
#define XFER_GD2FS_STATUS_CLASS_SERVER 2u /* a node */

/* XFER_GD2FS_VERSION of the library that runs. The library owns the string. */
const char* xfer_gd2fs_version(void);

/* Connects to a cluster; blocks until one node has answered or none did, a second for each address.
 * NULL on failure, and a line on stderr that says why. The caller closes the context. */
xfer_gd2fs_ctx* xfer_gd2fs_connect(const xfer_gd2fs_options* options);

/* Ends what is under way and frees the context with all its registrations. Threads that are inside
 * another call on it come back first, those in `xfer_gd2fs_wait` with -ECANCELED. When it returns,
 * nothing of the library touches the caller's memory; requests not taken are forgotten, and of a
 * write among them is not known whether it happened. NULL is allowed. */
void xfer_gd2fs_close(xfer_gd2fs_ctx* ctx);

/* Registers `len` bytes at `addr` for use in requests of this context. All of it has to be mapped
 * and readable; it is the caller's, and stays mapped until it is deregistered or the context
 * closed. `attributes` is for later and has to be NULL. NULL on failure. */
xfer_gd2fs_iomem* xfer_gd2fs_reg_iomem(xfer_gd2fs_ctx* ctx, void* addr, size_t len,
                                       void* attributes);

/* Ends a registration: `iomem` is invalid afterwards. 0, -EBUSY while a request that was not taken
 * yet uses it, -EINVAL when it is none of this context. */
int xfer_gd2fs_dereg_iomem(xfer_gd2fs_ctx* ctx, xfer_gd2fs_iomem* iomem);

/* Starts to ask what a file is. `stat` is filled when `xfer_gd2fs_wait` hands the request out with
 * success; until then it is lent to the library. `path` is copied. 0 or a negative errno. */
int xfer_gd2fs_fstat(xfer_gd2fs_ctx* ctx, void* id, const char* path, xfer_gd2fs_stat* stat);

/* Starts to make an empty file; one that is there stays as it is, and that is success. `flags` has
 * to be 0. `size`: how long the file will be, a hint that may be 0. 0 or a negative errno. */
int xfer_gd2fs_create(xfer_gd2fs_ctx* ctx, void* id, const char* path, uint32_t flags,
                      uint64_t size);

/* Starts to read one contiguous range, beginning at byte `offset` of the file, into `nsge` pieces
 * of memory in their order. Pieces must not overlap. What was never written before the file's end
 * reads as zeros. A range that reaches past the end of the file ends with ENODATA.
 *
 * `sges` and `path` are copied: they may be freed at once. The memory itself is lent to the library
 * until the request is handed out by `xfer_gd2fs_wait`. `flags` has to be 0.
 * 0 when it was started, else a negative errno. */
ssize_t xfer_gd2fs_preadv(xfer_gd2fs_ctx* ctx, void* id, const char* path, uint64_t offset,
                          const xfer_gd2fs_sge* sges, unsigned nsge, uint32_t flags);

/* Starts to write `nsge` pieces of memory as one contiguous range of an existing file, which grows
 * where that is needed. Once it has ended with success everyone reads these bytes. Otherwise as
 * `xfer_gd2fs_preadv`; the memory must not change until the request is handed out. */
ssize_t xfer_gd2fs_pwritev(xfer_gd2fs_ctx* ctx, void* id, const char* path, uint64_t offset,
                           const xfer_gd2fs_sge* sges, unsigned nsge, uint32_t flags);

/* Hands out requests that have ended, the first to end first, at most `max` of them.
 *
 * Waits `timeout_ms` for the first one: -1 for ever, 0 not at all. How many were put in `out`: 0
 * when the time passed, or `max` is 0. A negative errno: -EINVAL, -ECANCELED when the context is
 * being closed. Each request is handed to one caller only. */
int xfer_gd2fs_wait(xfer_gd2fs_ctx* ctx, xfer_gd2fs_completion* out, unsigned max, int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif /* XFER_GD2FS_H */
