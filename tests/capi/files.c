/* Files: create, stat, and bytes that come back. */
#include <errno.h>
#include <string.h>

#include "check.h"
#include "properties.h"
#include "session.h"

#define MIB ((size_t)1 << 20)

void missing_file_is_enoent(void) {
  struct session session = session_open(4096);
  uint64_t size;
  CHECK(session_stat(&session, "/capi/missing", &size) == ENOENT);
  CHECK(size == UINT64_MAX); /* not touched */
  CHECK(session_read(&session, "/capi/missing", 0, 0, 4096) == ENOENT);
  CHECK(session_write(&session, "/capi/missing", 0, 0, 4096) == ENOENT);
  session_close(&session);
}

void create_of_an_existing_file_is_success(void) {
  struct session session = session_open(5000);
  uint64_t size;
  CHECK(session_create(&session, "/capi/twice") == 0);
  CHECK(session_stat(&session, "/capi/twice", &size) == 0 && size == 0);
  CHECK(session_write(&session, "/capi/twice", 0, 0, 5000) == 0);
  CHECK(session_create(&session, "/capi/twice") == 0);
  CHECK(session_stat(&session, "/capi/twice", &size) == 0 && size == 5000);
  session_close(&session);
}

/* The list of pieces, freed right after the call, in an order that is not memory's. */
static void move(struct session* session, int is_read, const size_t* at, const size_t* bytes,
                 unsigned count) {
  xfer_gd2fs_sge* sges = malloc(count * sizeof *sges);
  ssize_t answer;
  unsigned each;
  for (each = 0; each < count; ++each) sges[each] = session_sge(session, at[each], bytes[each]);
  answer = is_read ? xfer_gd2fs_preadv(session->ctx, session, "/capi/pieces", 100, sges, count, 0)
                   : xfer_gd2fs_pwritev(session->ctx, session, "/capi/pieces", 100, sges, count, 0);
  memset(sges, 0xff, count * sizeof *sges);
  free(sges);
  CHECK(answer == 0);
  CHECK(session_finish(session, session).status == 0);
}

void pieces_make_one_range(void) {
  const size_t at[] = {3 * MIB, 0, 2 * MIB};
  const size_t bytes[] = {700000, 65537, 1};
  struct session session = session_open(8 * MIB);
  const size_t total = bytes[0] + bytes[1] + bytes[2];
  unsigned char* const back = session.memory + 4 * MIB;
  fill(session.memory, 4 * MIB, 1);
  CHECK(session_create(&session, "/capi/pieces") == 0);
  move(&session, 0, at, bytes, 3);
  CHECK(session_read(&session, "/capi/pieces", 100, 4 * MIB, total) == 0);
  CHECK(memcmp(back, session.memory + at[0], bytes[0]) == 0);
  CHECK(memcmp(back + bytes[0], session.memory + at[1], bytes[1]) == 0);
  CHECK(back[total - 1] == session.memory[at[2]]);
  memset(session.memory, 0, 4 * MIB);
  move(&session, 1, at, bytes, 3);
  CHECK(memcmp(back, session.memory + at[0], bytes[0]) == 0);
  CHECK(memcmp(back + bytes[0], session.memory + at[1], bytes[1]) == 0);
  CHECK(back[total - 1] == session.memory[at[2]]);
  CHECK(session.memory[at[2] + 1] == 0);
  session_close(&session);
}

void overwrite_changes_its_range_only(void) {
  const size_t bytes = 9 * MIB + 17;
  struct session session = session_open(2 * bytes);
  uint64_t size;
  fill(session.memory, bytes, 2);
  CHECK(session_create(&session, "/capi/overwritten") == 0);
  CHECK(session_write(&session, "/capi/overwritten", 0, 0, bytes) == 0);
  fill(session.memory + 3 * MIB + 5, 2 * MIB, 3);
  CHECK(session_write(&session, "/capi/overwritten", 3 * MIB + 5, 3 * MIB + 5, 2 * MIB) == 0);
  CHECK(session_stat(&session, "/capi/overwritten", &size) == 0 && size == bytes);
  CHECK(session_read(&session, "/capi/overwritten", 0, bytes, bytes) == 0);
  CHECK(memcmp(session.memory, session.memory + bytes, bytes) == 0);
  session_close(&session);
}

void read_past_the_end_is_enodata(void) {
  struct session session = session_open(3000);
  xfer_gd2fs_sge sge = session_sge(&session, 1000, 2000);
  xfer_gd2fs_completion completion;
  fill(session.memory, 3000, 4);
  CHECK(session_create(&session, "/capi/short") == 0);
  CHECK(session_write(&session, "/capi/short", 0, 0, 1000) == 0);
  CHECK(xfer_gd2fs_preadv(session.ctx, &sge, "/capi/short", 300, &sge, 1, 0) == 0);
  completion = session_finish(&session, &sge);
  CHECK(XFER_GD2FS_STATUS_CODE(completion.status) == ENODATA);
  CHECK(XFER_GD2FS_STATUS_CLASS(completion.status) == XFER_GD2FS_STATUS_CLASS_SERVER);
  CHECK(completion.bytes == 700);
  CHECK(memcmp(session.memory + 300, session.memory + 1000, 700) == 0);
  CHECK(session_read(&session, "/capi/short", 5000, 0, 1) == ENODATA);
  CHECK(session_read(&session, "/capi/short", 300, 1000, 700) == 0);
  session_close(&session);
}

void holes_read_as_zeros(void) {
  struct session session = session_open(2 * MIB);
  size_t at;
  fill(session.memory, 2 * MIB, 5);
  CHECK(session_create(&session, "/capi/holes") == 0);
  CHECK(session_write(&session, "/capi/holes", MIB, 0, 1) == 0);
  CHECK(session_read(&session, "/capi/holes", 0, MIB, MIB) == 0);
  for (at = MIB; at < 2 * MIB; ++at) CHECK(session.memory[at] == 0);
  CHECK(session_write(&session, "/capi/holes", 0, 0, 0) == 0);
  CHECK(session_read(&session, "/capi/holes", 0, 0, 0) == 0);
  session_close(&session);
}

void large_write_comes_back(void) {
  const size_t bytes = (getenv("LARGE_MIB") ? strtoul(getenv("LARGE_MIB"), NULL, 10) : 64) * MIB;
  struct session session = session_open(2 * bytes);
  fill(session.memory, bytes, 6);
  memset(session.memory + bytes, 0, bytes);
  CHECK(session_create(&session, "/capi/large") == 0);
  CHECK(session_write(&session, "/capi/large", 0, 0, bytes) == 0);
  CHECK(session_read(&session, "/capi/large", 0, bytes, bytes) == 0);
  CHECK(memcmp(session.memory, session.memory + bytes, bytes) == 0);
  session_close(&session);
}
