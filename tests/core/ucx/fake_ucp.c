/* A libucp that has a version and the names of all calls that are looked up, and does nothing. */
#include <stdlib.h>

void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) {
  const char* const text = getenv("FAKE_UCP_MINOR");
  *major = 1;
  *minor = text != NULL ? (unsigned)atoi(text) : 0;
  *release = 0;
}

#define NEVER_CALLED(name) \
  void name(void) { abort(); }

NEVER_CALLED(ucp_init_version)
NEVER_CALLED(ucp_cleanup)
NEVER_CALLED(ucp_context_query)
NEVER_CALLED(ucp_config_read)
NEVER_CALLED(ucp_config_modify)
NEVER_CALLED(ucp_config_release)
NEVER_CALLED(ucp_worker_create)
NEVER_CALLED(ucp_worker_destroy)
NEVER_CALLED(ucp_worker_progress)
NEVER_CALLED(ucp_worker_get_efd)
NEVER_CALLED(ucp_worker_arm)
NEVER_CALLED(ucp_worker_get_address)
NEVER_CALLED(ucp_worker_release_address)
NEVER_CALLED(ucp_worker_flush_nbx)
NEVER_CALLED(ucp_ep_create)
NEVER_CALLED(ucp_ep_close_nbx)
NEVER_CALLED(ucp_ep_flush_nbx)
NEVER_CALLED(ucp_ep_rkey_unpack)
NEVER_CALLED(ucp_mem_map)
NEVER_CALLED(ucp_mem_query)
NEVER_CALLED(ucp_mem_unmap)
NEVER_CALLED(ucp_rkey_pack)
NEVER_CALLED(ucp_rkey_buffer_release)
NEVER_CALLED(ucp_rkey_destroy)
NEVER_CALLED(ucp_put_nbx)
NEVER_CALLED(ucp_get_nbx)
NEVER_CALLED(ucp_request_free)
NEVER_CALLED(ucs_status_string)
