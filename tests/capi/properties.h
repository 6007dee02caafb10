/* Properties: what holds of the C interface; each checks one and returns, or ends the program. */
#ifndef PROPERTIES_H
#define PROPERTIES_H

void missing_file_is_enoent(void);
void create_of_an_existing_file_is_success(void);
void pieces_make_one_range(void);
void overwrite_changes_its_range_only(void);
void read_past_the_end_is_enodata(void);
void holes_read_as_zeros(void);
void large_write_comes_back(void);

void requests_end_with_their_ids(void);
void wait_keeps_its_timeouts(void);
void memory_is_checked(void);
void registration_in_use_is_busy(void);
void broken_rules_are_refused(void);
void connect_fails_with_null(void);

void close_ends_what_is_under_way(void);
void child_of_fork_is_refused(void);
void signals_are_left_to_the_program(void);
void close_wakes_a_waiting_thread(void);
void contexts_serve_their_own_threads(void);
void threads_share_a_context(void);
void stopped_node_costs_one_deadline(void);

#endif
