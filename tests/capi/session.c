#include "session.h"

#include <string.h>

#include "check.h"

const char* session_cp;
const char* session_cluster;

xfer_gd2fs_options session_options(void) {
  xfer_gd2fs_options options;
  memset(&options, 0, sizeof options);
  options.cp_address = session_cp;
  options.cluster_id = session_cluster;
  options.timeout = PATIENCE_MS;
  return options;
}

struct session session_open(size_t bytes) {
  struct session session;
  xfer_gd2fs_options options = session_options();
  session.ctx = xfer_gd2fs_connect(&options);
  CHECK(session.ctx != NULL);
  session.memory = calloc(1, bytes);
  session.bytes = bytes;
  CHECK(session.memory != NULL);
  session.iomem = xfer_gd2fs_reg_iomem(session.ctx, session.memory, bytes, NULL);
  CHECK(session.iomem != NULL);
  return session;
}

void session_close(struct session* session) {
  CHECK(xfer_gd2fs_dereg_iomem(session->ctx, session->iomem) == 0);
  xfer_gd2fs_close(session->ctx);
  free(session->memory);
}

xfer_gd2fs_completion session_finish(struct session* session, void* id) {
  xfer_gd2fs_completion completion;
  CHECK(xfer_gd2fs_wait(session->ctx, &completion, 1, PATIENCE_MS) == 1);
  CHECK(completion.id == id);
  return completion;
}

int session_create(struct session* session, const char* path) {
  CHECK(xfer_gd2fs_create(session->ctx, session, path, 0, 0) == 0);
  return XFER_GD2FS_STATUS_CODE(session_finish(session, session).status);
}

int session_stat(struct session* session, const char* path, uint64_t* size) {
  xfer_gd2fs_stat stat;
  xfer_gd2fs_completion completion;
  stat.size = UINT64_MAX;
  CHECK(xfer_gd2fs_fstat(session->ctx, session, path, &stat) == 0);
  completion = session_finish(session, session);
  *size = stat.size;
  return XFER_GD2FS_STATUS_CODE(completion.status);
}

xfer_gd2fs_sge session_sge(struct session* session, size_t at, size_t bytes) {
  xfer_gd2fs_sge sge;
  sge.addr = session->memory + at;
  sge.len = bytes;
  sge.iomem = session->iomem;
  return sge;
}

int session_write(struct session* session, const char* path, uint64_t offset, size_t at,
                  size_t bytes) {
  xfer_gd2fs_sge sge = session_sge(session, at, bytes);
  xfer_gd2fs_completion completion;
  CHECK(xfer_gd2fs_pwritev(session->ctx, session, path, offset, &sge, 1, 0) == 0);
  completion = session_finish(session, session);
  if (completion.status == 0) CHECK(completion.bytes == bytes);
  return XFER_GD2FS_STATUS_CODE(completion.status);
}

int session_read(struct session* session, const char* path, uint64_t offset, size_t at,
                 size_t bytes) {
  xfer_gd2fs_sge sge = session_sge(session, at, bytes);
  xfer_gd2fs_completion completion;
  CHECK(xfer_gd2fs_preadv(session->ctx, session, path, offset, &sge, 1, 0) == 0);
  completion = session_finish(session, session);
  if (completion.status == 0) CHECK(completion.bytes == bytes);
  return XFER_GD2FS_STATUS_CODE(completion.status);
}

void fill(unsigned char* memory, size_t bytes, unsigned seed) {
  uint64_t state = 0x9e3779b97f4a7c15u * (seed + 1u);
  size_t at;
  for (at = 0; at < bytes; ++at) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    memory[at] = (unsigned char)(state >> 56);
  }
}
