#include "ucx_cards.h"

#include <filesystem>

namespace gd2fs::ucx {

namespace {

constexpr const char* FOLDER = "ucx";         // of modules, beside the libraries
constexpr const char* MODULE = "libuct_ib.";  // its name goes on as that of libucs does

}  // namespace

bool knows_cards(const Library& library) {
  std::error_code ignored;
  const auto folder = std::filesystem::canonical(library.path(), ignored).parent_path() / FOLDER;
  for (const auto& each : std::filesystem::directory_iterator(folder, ignored))
    if (each.path().filename().string().starts_with(MODULE)) return true;
  return false;
}

}  // namespace gd2fs::ucx
