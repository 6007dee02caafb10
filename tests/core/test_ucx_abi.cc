// Does what core/transport/ucx_abi.h says of UCX's binary interface agree with UCX's own headers?
// Compared where they are installed (Debian: libucx-dev).
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include "transport/ucx_library.h"

#if __has_include(<ucp/api/ucp.h>)
#include <ucp/api/ucp.h>

#include <type_traits>

namespace {

using namespace gd2fs::ucx;

static_assert(sizeof(abi::Status) == sizeof(ucs_status_t));
static_assert(abi::OK == UCS_OK && abi::IN_PROGRESS == UCS_INPROGRESS);
static_assert(abi::BUSY == UCS_ERR_BUSY && abi::LAST_ERROR == UCS_ERR_LAST);
static_assert(abi::FEATURE_RMA == UCP_FEATURE_RMA && abi::FEATURE_WAKEUP == UCP_FEATURE_WAKEUP);
static_assert(abi::THREADS_MULTI == UCS_THREAD_MODE_MULTI);

static_assert(abi::PARAMS_FEATURES == UCP_PARAM_FIELD_FEATURES);
static_assert(abi::PARAMS_SHARED_BY_THREADS == UCP_PARAM_FIELD_MT_WORKERS_SHARED);
static_assert(offsetof(abi::Params, features) == offsetof(ucp_params_t, features));
static_assert(offsetof(abi::Params, is_shared_by_threads) ==
              offsetof(ucp_params_t, mt_workers_shared));

static_assert(abi::CONTEXT_THREAD_MODE == UCP_ATTR_FIELD_THREAD_MODE);
static_assert(offsetof(abi::ContextFacts, thread_mode) ==
              offsetof(ucp_context_attr_t, thread_mode));
static_assert(sizeof(abi::ContextFacts) >= sizeof(ucp_context_attr_t));

static_assert(abi::ENDPOINT_ADDRESS == UCP_EP_PARAM_FIELD_REMOTE_ADDRESS);
static_assert(abi::ENDPOINT_ERROR_MODE == UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE);
static_assert(abi::ENDPOINT_ERROR_HANDLER == UCP_EP_PARAM_FIELD_ERR_HANDLER);
static_assert(abi::ERRORS_OF_PEER == UCP_ERR_HANDLING_MODE_PEER);
static_assert(abi::ERRORS_OF_NOBODY == UCP_ERR_HANDLING_MODE_NONE);
static_assert(offsetof(abi::EndpointParams, address) == offsetof(ucp_ep_params_t, address));
static_assert(offsetof(abi::EndpointParams, error_mode) == offsetof(ucp_ep_params_t, err_mode));
static_assert(offsetof(abi::EndpointParams, on_error) ==
              offsetof(ucp_ep_params_t, err_handler) + offsetof(ucp_err_handler_t, cb));
static_assert(offsetof(abi::EndpointParams, argument) ==
              offsetof(ucp_ep_params_t, err_handler) + offsetof(ucp_err_handler_t, arg));

static_assert(abi::MEMORY_ADDRESS == UCP_MEM_MAP_PARAM_FIELD_ADDRESS);
static_assert(abi::MEMORY_LENGTH == UCP_MEM_MAP_PARAM_FIELD_LENGTH);
static_assert(offsetof(abi::MemoryParams, address) == offsetof(ucp_mem_map_params_t, address));
static_assert(offsetof(abi::MemoryParams, length) == offsetof(ucp_mem_map_params_t, length));

static_assert(abi::MEMORY_KIND == UCP_MEM_ATTR_FIELD_MEM_TYPE);
static_assert(abi::KIND_CUDA == UCS_MEMORY_TYPE_CUDA);
static_assert(offsetof(abi::MemoryFacts, kind) == offsetof(ucp_mem_attr_t, mem_type));
static_assert(sizeof(abi::MemoryFacts) >= sizeof(ucp_mem_attr_t));

static_assert(abi::REQUEST_CALLBACK == UCP_OP_ATTR_FIELD_CALLBACK);
static_assert(abi::REQUEST_USER_DATA == UCP_OP_ATTR_FIELD_USER_DATA);
static_assert(abi::REQUEST_FLAGS == UCP_OP_ATTR_FIELD_FLAGS);
static_assert(abi::CLOSE_BY_FORCE == UCP_EP_CLOSE_FLAG_FORCE);
static_assert(offsetof(abi::RequestParam, flags) == offsetof(ucp_request_param_t, flags));
static_assert(offsetof(abi::RequestParam, callback) == offsetof(ucp_request_param_t, cb));
static_assert(offsetof(abi::RequestParam, datatype) == offsetof(ucp_request_param_t, datatype));
static_assert(offsetof(abi::RequestParam, user_data) == offsetof(ucp_request_param_t, user_data));
static_assert(sizeof(abi::RequestParam) >= sizeof(ucp_request_param_t));
#if UCP_API_MAJOR > 1 || UCP_API_MINOR >= 14
static_assert(abi::REQUEST_MEMORY == UCP_OP_ATTR_FIELD_MEMH);
static_assert(offsetof(abi::RequestParam, memory) == offsetof(ucp_request_param_t, memh));
#endif

}  // namespace

TEST_CASE("statuses are told from requests as UCX does") {
  for (std::intptr_t value : {-101, -100, -99, -1, 0, 1, 4096}) {
    auto* const request = reinterpret_cast<void*>(value);  // never dereferenced
    CHECK(abi::is_error(request) == bool(UCS_PTR_IS_ERR(request)));
  }
}
#else
TEST_CASE("UCX's headers are not here: nothing was compared") {
  MESSAGE("install libucx-dev to have the interface compared");
}
#endif
