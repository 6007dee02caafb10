/* Session: a context with one registered block of memory, and requests one at a time. */
#ifndef SESSION_H
#define SESSION_H

#include <stdint.h>
#include <xfer/gd2fs.h>

#define PATIENCE_MS 20000 /* on a busy machine */

struct session {
  xfer_gd2fs_ctx* ctx;
  unsigned char* memory;
  size_t bytes;
  xfer_gd2fs_iomem* iomem;
};

/* Where the nodes are: set once by `main`. */
extern const char* session_cp;
extern const char* session_cluster;

xfer_gd2fs_options session_options(void);
struct session session_open(size_t bytes);
void session_close(struct session* session);

/* The next request to end: its `id` has to be this one. */
xfer_gd2fs_completion session_finish(struct session* session, void* id);
/* Error codes of whole requests, 0 for success. */
int session_create(struct session* session, const char* path);
int session_stat(struct session* session, const char* path, uint64_t* size);
/* Of `bytes` of the session's memory, from `at` on, as one piece. */
int session_write(struct session* session, const char* path, uint64_t offset, size_t at,
                  size_t bytes);
int session_read(struct session* session, const char* path, uint64_t offset, size_t at,
                 size_t bytes);
xfer_gd2fs_sge session_sge(struct session* session, size_t at, size_t bytes);

/* Bytes that depend on their place and on `seed`. */
void fill(unsigned char* memory, size_t bytes, unsigned seed);

#endif
