#include "name.h"

#include "limits.h"

namespace gd2fs {
namespace {

bool is_dots(std::string_view part) { return part == "." || part == ".."; }

/// The first component of `path` that breaks a rule, or nothing.
std::string component_fault(std::string_view path) {
  std::size_t components = 0;
  for (std::size_t at = 1; at <= path.size(); ++components) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty()) return "has an empty component";
    if (is_dots(part)) return "has a `" + std::string(part) + "` component";
    at = end + 1;
  }
  return components >= 2 ? "" : "names only a namespace, a file needs `/namespace/name`";
}

}  // namespace

std::string path_fault(std::string_view path) {
  if (path.empty()) return "is empty";
  if (path.front() != '/') return "is not absolute, it must start with `/`";
  if (path.size() > PATH_BYTES_MAX)
    return "is " + std::to_string(path.size()) + " bytes long, at most " +
           std::to_string(PATH_BYTES_MAX) + " are allowed";
  if (path.find('\0') != std::string_view::npos) return "contains a NUL byte";
  if (std::string fault = component_fault(path); !fault.empty()) return fault;
  return namespace_fault(namespace_of(path, false));
}

std::string namespace_fault(std::string_view name_space) {
  if (name_space.empty()) return "is empty";
  if (name_space.size() > NAMESPACE_BYTES_MAX)
    return "is " + std::to_string(name_space.size()) + " bytes long, at most " +
           std::to_string(NAMESPACE_BYTES_MAX) + " are allowed";
  if (name_space.find('/') != std::string_view::npos)
    return "contains `/`, it is one path component";
  if (name_space.find('\0') != std::string_view::npos) return "contains a NUL byte";
  return is_dots(name_space) ? "is `" + std::string(name_space) + "`" : "";
}

std::string key_fault(std::string_view key) {
  if (key.empty()) return "is empty";
  if (key.size() <= KEY_BYTES_MAX) return "";
  return "is " + std::to_string(key.size()) + " bytes long, at most " +
         std::to_string(KEY_BYTES_MAX) + " are allowed";
}

std::string page_name(std::string_view name_space, std::string_view key) {
  std::string name;
  name.reserve(name_space.size() + 1 + key.size());
  name.append(name_space).push_back('\0');
  return name.append(key);
}

std::string_view namespace_of(std::string_view name, bool is_page) {
  if (is_page) return name.substr(0, name.find('\0'));
  const std::string_view rest = name.substr(name.empty() ? 0 : 1);
  return rest.substr(0, rest.find('/'));
}

bool is_valid_name(std::string_view name, bool is_page) {
  if (!is_page) return path_fault(name).empty();
  const std::size_t at = name.find('\0');
  if (at == std::string_view::npos) return false;
  return namespace_fault(name.substr(0, at)).empty() && key_fault(name.substr(at + 1)).empty();
}

}  // namespace gd2fs
