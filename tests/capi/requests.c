/* Requests: what is refused at once, what is under way, and what a wait hands out. */
#include <errno.h>
#include <string.h>

#include "check.h"
#include "properties.h"
#include "session.h"

#define DEPTH 8
#define PIECE ((size_t)1 << 20)

/* Starts all pieces at once, in an order that is not the file's, and waits for each of them once.
 * An id is the address of the piece's own flag. */
static void move_all(struct session* session, int is_read) {
  char is_done[DEPTH] = {0};
  xfer_gd2fs_completion ended[DEPTH];
  unsigned each, left = DEPTH;
  for (each = 0; each < DEPTH; ++each) {
    const size_t at = each * 5 % DEPTH * PIECE;
    xfer_gd2fs_sge sge = session_sge(session, at, PIECE);
    CHECK((is_read ? xfer_gd2fs_preadv : xfer_gd2fs_pwritev)(session->ctx, &is_done[at / PIECE],
                                                             "/capi/deep", at, &sge, 1, 0) == 0);
  }
  while (left > 0) {
    const int count = xfer_gd2fs_wait(session->ctx, ended, DEPTH, PATIENCE_MS);
    int at;
    CHECK(count > 0 && (unsigned)count <= left);
    for (at = 0; at < count; ++at) {
      char* const flag = ended[at].id;
      CHECK(flag >= is_done && flag < is_done + DEPTH && *flag == 0);
      CHECK(ended[at].status == 0 && ended[at].bytes == PIECE);
      *flag = 1;
    }
    left -= (unsigned)count;
  }
  CHECK(xfer_gd2fs_wait(session->ctx, ended, DEPTH, 0) == 0);
}

void requests_end_with_their_ids(void) {
  struct session session = session_open(DEPTH * PIECE);
  unsigned char* const sent = malloc(DEPTH * PIECE);
  fill(sent, DEPTH * PIECE, 7);
  memcpy(session.memory, sent, DEPTH * PIECE);
  CHECK(session_create(&session, "/capi/deep") == 0);
  move_all(&session, 0);
  memset(session.memory, 0, DEPTH * PIECE);
  move_all(&session, 1);
  CHECK(memcmp(session.memory, sent, DEPTH * PIECE) == 0);
  free(sent);
  session_close(&session);
}

void wait_keeps_its_timeouts(void) {
  struct session session = session_open(4096);
  xfer_gd2fs_completion ended;
  CHECK(xfer_gd2fs_wait(session.ctx, &ended, 1, 0) == 0);
  CHECK(xfer_gd2fs_wait(session.ctx, &ended, 1, 30) == 0);
  CHECK(xfer_gd2fs_wait(session.ctx, NULL, 0, -1) == 0);
  CHECK(xfer_gd2fs_wait(session.ctx, NULL, 1, 0) == -EINVAL);
  CHECK(xfer_gd2fs_create(session.ctx, &ended, "/capi/waited", 0, 0) == 0);
  CHECK(xfer_gd2fs_wait(session.ctx, &ended, 1, -1) == 1);
  CHECK(ended.id == &ended && ended.status == 0);
  CHECK(xfer_gd2fs_wait(session.ctx, &ended, 1, 0) == 0);
  session_close(&session);
}

static ssize_t try_sge(struct session* session, xfer_gd2fs_sge sge) {
  return xfer_gd2fs_preadv(session->ctx, NULL, "/capi/checked", 0, &sge, 1, 0);
}

void memory_is_checked(void) {
  struct session session = session_open(8192);
  struct session other = session_open(8192);
  xfer_gd2fs_sge sge = session_sge(&session, 0, 8192);
  xfer_gd2fs_sge twice[2];
  sge.len = 8193;
  CHECK(try_sge(&session, sge) == -EINVAL);
  sge.len = SIZE_MAX;
  CHECK(try_sge(&session, sge) == -EINVAL);
  sge = session_sge(&session, 0, 1);
  sge.addr = session.memory - 1;
  CHECK(try_sge(&session, sge) == -EINVAL);
  sge = session_sge(&session, 0, 1);
  sge.iomem = NULL;
  CHECK(try_sge(&session, sge) == -EINVAL);
  CHECK(try_sge(&session, session_sge(&other, 0, 1)) == -EINVAL); /* of another context */
  twice[0] = session_sge(&session, 0, 100);
  twice[1] = session_sge(&session, 99, 100);
  CHECK(xfer_gd2fs_preadv(session.ctx, NULL, "/capi/checked", 0, twice, 2, 0) == -EINVAL);
  CHECK(xfer_gd2fs_reg_iomem(session.ctx, NULL, 1, NULL) == NULL);
  CHECK(xfer_gd2fs_reg_iomem(session.ctx, session.memory, 0, NULL) == NULL);
  CHECK(xfer_gd2fs_reg_iomem(session.ctx, session.memory, SIZE_MAX, NULL) == NULL);
  CHECK(xfer_gd2fs_reg_iomem(session.ctx, (void*)64, 64, NULL) == NULL); /* not mapped */
  CHECK(xfer_gd2fs_reg_iomem(session.ctx, session.memory, 1, &sge) == NULL);
  session_close(&other);
  session_close(&session);
}

void registration_in_use_is_busy(void) {
  struct session session = session_open(4096);
  xfer_gd2fs_sge sge = session_sge(&session, 0, 4096);
  CHECK(session_create(&session, "/capi/busy") == 0);
  CHECK(xfer_gd2fs_pwritev(session.ctx, &sge, "/capi/busy", 0, &sge, 1, 0) == 0);
  CHECK(xfer_gd2fs_dereg_iomem(session.ctx, session.iomem) == -EBUSY);
  CHECK(session_finish(&session, &sge).status == 0);
  CHECK(xfer_gd2fs_dereg_iomem(session.ctx, session.iomem) == 0);
  CHECK(xfer_gd2fs_dereg_iomem(session.ctx, session.iomem) == -EINVAL);
  CHECK(try_sge(&session, sge) == -EINVAL);
  session.iomem = xfer_gd2fs_reg_iomem(session.ctx, session.memory, 4096, NULL);
  session_close(&session);
}

void broken_rules_are_refused(void) {
  struct session session = session_open(4096);
  xfer_gd2fs_sge sge = session_sge(&session, 0, 4096);
  xfer_gd2fs_stat stat;
  CHECK(xfer_gd2fs_fstat(session.ctx, NULL, "relative/path", &stat) == -EINVAL);
  CHECK(xfer_gd2fs_fstat(session.ctx, NULL, NULL, &stat) == -EINVAL);
  CHECK(xfer_gd2fs_fstat(session.ctx, NULL, "/capi/file", NULL) == -EINVAL);
  CHECK(xfer_gd2fs_fstat(NULL, NULL, "/capi/file", &stat) == -EINVAL);
  CHECK(xfer_gd2fs_create(session.ctx, NULL, "/onlynamespace", 0, 0) == -EINVAL);
  CHECK(xfer_gd2fs_create(session.ctx, NULL, "/capi/file", 1, 0) == -EINVAL);
  CHECK(xfer_gd2fs_preadv(session.ctx, NULL, "/capi/file", 0, &sge, 1, 7) == -EINVAL);
  CHECK(xfer_gd2fs_preadv(session.ctx, NULL, "/capi/file", 0, NULL, 1, 0) == -EINVAL);
  CHECK(xfer_gd2fs_pwritev(session.ctx, NULL, "/capi/file", UINT64_MAX, &sge, 1, 0) == -EINVAL);
  CHECK(xfer_gd2fs_pwritev(session.ctx, NULL, "/capi/file", 0, &sge, XFER_GD2FS_SGES_MAX + 1, 0) ==
        -EINVAL);
  CHECK(xfer_gd2fs_wait(session.ctx, NULL, 0, 0) == 0); /* nothing of it was started */
  xfer_gd2fs_close(NULL);
  session_close(&session);
}

static int connects(xfer_gd2fs_options options) {
  xfer_gd2fs_ctx* const ctx = xfer_gd2fs_connect(&options);
  xfer_gd2fs_close(ctx);
  return ctx != NULL;
}

void connect_fails_with_null(void) {
  xfer_gd2fs_options options = session_options();
  CHECK(connects(options));
  options.dp_address = "tcp://127.0.0.1";
  CHECK(connects(options));
  options.dp_address = "tcp://127.0.0.1,rdma://127.0.0.1"; /* one scheme in a list */
  CHECK(!connects(options));
  options.dp_address = "tcp://192.0.2.1"; /* an address for documentation: nobody has it */
  CHECK(!connects(options));
  options = session_options();
  options.cluster_id = "another";
  CHECK(!connects(options));
  options.cluster_id = NULL;
  CHECK(!connects(options));
  options = session_options();
  options.cp_address = "gd2fs://127.0.0.1:1"; /* nobody listens */
  CHECK(!connects(options));
  options.cp_address = "http://127.0.0.1:80";
  CHECK(!connects(options));
  options.cp_address = NULL;
  CHECK(!connects(options));
  options = session_options();
  options.iothread_count = 65;
  CHECK(!connects(options));
  CHECK(xfer_gd2fs_connect(NULL) == NULL);
}
