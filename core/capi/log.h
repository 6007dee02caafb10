// Log: what a C program is told beyond its error codes, one line each on standard error.
#pragma once

#include <string>
#include <string_view>

namespace gd2fs::capi {

enum class LogLevel { info, warn, error };

class Log {
 public:
  explicit Log(LogLevel level = LogLevel::warn) noexcept : level_(level) {}

  /// One line, where `level` is loud enough. Without an allocation that fails, or an exception.
  void say(LogLevel level, std::string_view message, std::string_view hint = {}) const noexcept;

 private:
  LogLevel level_;
};

/// Reads `info`, `warn` or `error`; NULL is `warn`. False: another word, which counts as `info`.
bool parse_log_level(const char* text, LogLevel& level) noexcept;

}  // namespace gd2fs::capi
