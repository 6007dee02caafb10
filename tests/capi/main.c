/* Runs one property: main NAME CP_ADDRESS CLUSTER. */
#include <string.h>

#include "check.h"
#include "properties.h"
#include "session.h"

struct property {
  const char* name;
  void (*holds)(void);
};

#define PROPERTY(name) \
  { #name, name }

/* clang-format off */
static const struct property properties[] = {
    PROPERTY(missing_file_is_enoent),
    PROPERTY(create_of_an_existing_file_is_success),
    PROPERTY(pieces_make_one_range),
    PROPERTY(overwrite_changes_its_range_only),
    PROPERTY(read_past_the_end_is_enodata),
    PROPERTY(holes_read_as_zeros),
    PROPERTY(large_write_comes_back),
    PROPERTY(requests_end_with_their_ids),
    PROPERTY(wait_keeps_its_timeouts),
    PROPERTY(memory_is_checked),
    PROPERTY(registration_in_use_is_busy),
    PROPERTY(broken_rules_are_refused),
    PROPERTY(connect_fails_with_null),
    PROPERTY(close_ends_what_is_under_way),
    PROPERTY(child_of_fork_is_refused),
    PROPERTY(signals_are_left_to_the_program),
    PROPERTY(close_wakes_a_waiting_thread),
    PROPERTY(contexts_serve_their_own_threads),
    PROPERTY(threads_share_a_context),
    PROPERTY(stopped_node_costs_one_deadline),
};
/* clang-format on */

int main(int count, char** words) {
  size_t at;
  if (count != 4) {
    fprintf(stderr, "usage: %s PROPERTY CP_ADDRESS CLUSTER\n", words[0]);
    return 2;
  }
  session_cp = words[2];
  session_cluster = words[3];
  CHECK(strcmp(xfer_gd2fs_version(), XFER_GD2FS_VERSION) == 0);
  for (at = 0; at < sizeof properties / sizeof *properties; ++at) {
    if (strcmp(properties[at].name, words[1]) != 0) continue;
    properties[at].holds();
    return 0;
  }
  fprintf(stderr, "no property `%s`\n", words[1]);
  return 2;
}
