#include "error.h"

namespace gd2fs {

const char* status_name(Status status) noexcept {
  switch (status) {
    case Status::ok: return "ok";
    case Status::miss: return "miss";
    case Status::have: return "have";
    case Status::retry: return "retry";
    case Status::stale_map: return "stale map";
    case Status::conflict: return "conflict";
    case Status::gone: return "gone";
    case Status::full: return "full";
    case Status::corrupt: return "corrupt";
    case Status::invalid: return "invalid";
    case Status::cancelled: return "cancelled";
    case Status::expired: return "expired";
    case Status::denied: return "denied";
    case Status::fenced: return "fenced";
    case Status::unknown: return "unknown";
    case Status::unavailable: return "unavailable";
  }
  return "undefined";
}

}  // namespace gd2fs
