// Names: a file's path and a page's key, as they travel and as they are indexed.
//
// A file is named by its absolute path, `/namespace/rest`. A page is named by `namespace NUL key`;
// its key is any bytes. Identity is the full name, byte for byte: a hash of it only places.
#pragma once

#include <string>
#include <string_view>

#include "error.h"

namespace gd2fs {

/// Nothing wrong: an empty string. Else one line: what is wrong with this path.
/// Rules: starts with `/`, 1 to PATH_BYTES_MAX bytes, at least `/namespace/name`, no NUL, no empty,
/// `.` or `..` component.
std::string path_fault(std::string_view path);
/// Rules: 1 to NAMESPACE_BYTES_MAX bytes, no `/`, no NUL, not `.` or `..`.
std::string namespace_fault(std::string_view name_space);
/// Rules: 1 to KEY_BYTES_MAX bytes.
std::string key_fault(std::string_view key);
/// The name of a page on the wire and in the index.
std::string page_name(std::string_view name_space, std::string_view key);
/// Namespace of a path or of a page's name.
std::string_view namespace_of(std::string_view name, bool is_page);
/// Checks a name as it came from the wire.
bool is_valid_name(std::string_view name, bool is_page);

}  // namespace gd2fs
