// Bounce job: one request whose memory is a GPU's, on its way.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "bounce.h"

namespace gd2fs {

/// One request on its way. What is of the thread alone is not guarded.
struct Bouncer::Job {
  /// A buffer of the request that is a GPU's, and where it stands in the pool meanwhile.
  struct Part {
    std::size_t buffer = 0;  // of the request's memory
    std::byte* device = nullptr;
    std::byte* host = nullptr;
    std::size_t bytes = 0;
    const cuda::Device* owner = nullptr;
  };
  struct Mark {
    const cuda::Device* owner;
    cuda::Handle event;
  };

  RpcRef rpc;
  std::size_t node = 0;
  std::vector<DeviceRef> devices;
  std::vector<Part> parts;
  std::size_t bytes = 0;
  std::function<void()> done;
  bool has_landed = false;  // set before it is posted for the second time
  bool was_summed = false;  // of one that is written, and is not summed now that it is direct
  bool is_checked = false;  // its bytes are being copied out again
  std::byte* room = nullptr;
  std::vector<Mark> marks;  // that copies under way have to reach
  std::string fault;

  /// The GPUs that its memory is of.
  std::set<const cuda::Device*> owners() const {
    std::set<const cuda::Device*> all;
    for (const Part& part : parts) all.insert(part.owner);
    return all;
  }
};

}  // namespace gd2fs
