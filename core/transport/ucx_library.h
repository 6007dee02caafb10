// UCX library: libucp, found at run time. Nothing is linked; a machine without it lacks RDMA only.
//
// It is never unloaded: it has hooks in the process that outlive whoever opened it.
#pragma once

#include <memory>
#include <string>

#include "../error.h"
#include "ucx_abi.h"

namespace gd2fs::ucx {

/// The calls that are used, named as in libucp without `ucp_`.
struct Calls {
  void (*get_version)(unsigned*, unsigned*, unsigned*);
  abi::Status (*init_version)(unsigned, unsigned, const abi::Params*, const abi::Config*,
                              abi::Context**);
  void (*cleanup)(abi::Context*);
  abi::Status (*context_query)(abi::Context*, abi::ContextFacts*);
  abi::Status (*config_read)(const char*, const char*, abi::Config**);
  abi::Status (*config_modify)(abi::Config*, const char*, const char*);
  void (*config_release)(abi::Config*);
  abi::Status (*worker_create)(abi::Context*, const abi::WorkerParams*, abi::Worker**);
  void (*worker_destroy)(abi::Worker*);
  unsigned (*worker_progress)(abi::Worker*);
  abi::Status (*worker_get_efd)(abi::Worker*, int*);
  abi::Status (*worker_arm)(abi::Worker*);
  abi::Status (*worker_get_address)(abi::Worker*, abi::Address**, std::size_t*);
  void (*worker_release_address)(abi::Worker*, abi::Address*);
  abi::Request (*worker_flush_nbx)(abi::Worker*, const abi::RequestParam*);
  abi::Status (*ep_create)(abi::Worker*, const abi::EndpointParams*, abi::Endpoint**);
  abi::Request (*ep_close_nbx)(abi::Endpoint*, const abi::RequestParam*);
  abi::Request (*ep_flush_nbx)(abi::Endpoint*, const abi::RequestParam*);
  abi::Status (*ep_rkey_unpack)(abi::Endpoint*, const void*, abi::RemoteKey**);
  abi::Status (*mem_map)(abi::Context*, const abi::MemoryParams*, abi::Memory**);
  abi::Status (*mem_query)(const abi::Memory*, abi::MemoryFacts*);
  abi::Status (*mem_unmap)(abi::Context*, abi::Memory*);
  abi::Status (*rkey_pack)(abi::Context*, abi::Memory*, void**, std::size_t*);
  void (*rkey_buffer_release)(void*);
  void (*rkey_destroy)(abi::RemoteKey*);
  abi::Request (*put_nbx)(abi::Endpoint*, const void*, std::size_t, std::uint64_t, abi::RemoteKey*,
                          const abi::RequestParam*);
  abi::Request (*get_nbx)(abi::Endpoint*, void*, std::size_t, std::uint64_t, abi::RemoteKey*,
                          const abi::RequestParam*);
  void (*request_free)(void*);
  const char* (*status_string)(abi::Status);  // of libucs
};

class Library {
 public:
  /// `path`: of a libucp; empty: the system's. The error says what is missing, and what brings it.
  static Result<std::shared_ptr<const Library>> open(const std::string& path);

  const Calls& calls() const noexcept { return calls_; }
  const std::string& path() const noexcept { return path_; }  // where it was found
  std::string version() const;
  unsigned minor_version() const noexcept { return minor_; }
  /// What could not be done, and why, in UCX's words.
  Error fault(const std::string& what, abi::Status status) const;

 private:
  Library() = default;
  Calls calls_{};
  std::string path_;
  unsigned major_ = 0, minor_ = 0, patch_ = 0;
};

using LibraryRef = std::shared_ptr<const Library>;

}  // namespace gd2fs::ucx
