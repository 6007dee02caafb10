#include "log.h"

#include <unistd.h>

#include <algorithm>
#include <array>

namespace gd2fs::capi {

namespace {

constexpr std::array<std::string_view, 3> LEVELS = {"info", "warn", "error"};
constexpr std::size_t LINE_BYTES_MAX = 4096;  // one write of so much is not torn on a pipe

/// A line that is cut where it is full, and has no character that a terminal obeys.
class Line {
 public:
  void add(std::string_view text) noexcept {
    for (const char each : text.substr(0, line_.size() - 1 - bytes_)) {
      const auto code = static_cast<unsigned char>(each);
      line_[bytes_++] = code < 0x20 || code == 0x7f ? '?' : each;
    }
  }

  void write_out() noexcept {
    line_[bytes_++] = '\n';
    static_cast<void>(!write(STDERR_FILENO, line_.data(), bytes_));
  }

 private:
  std::array<char, LINE_BYTES_MAX> line_;
  std::size_t bytes_ = 0;
};

}  // namespace

void Log::say(LogLevel level, std::string_view message, std::string_view hint) const noexcept {
  if (level < level_) return;
  Line line;
  line.add("libgd2fs: ");
  line.add(LEVELS[static_cast<std::size_t>(level)]);
  line.add(": ");
  line.add(message);
  if (!hint.empty()) {
    line.add("; hint: ");
    line.add(hint);
  }
  line.write_out();
}

bool parse_log_level(const char* text, LogLevel& level) noexcept {
  const std::string_view word = text == nullptr ? "warn" : text;
  const auto at = std::find(LEVELS.begin(), LEVELS.end(), word);
  level = at == LEVELS.end() ? LogLevel::info : static_cast<LogLevel>(at - LEVELS.begin());
  return at != LEVELS.end();
}

}  // namespace gd2fs::capi
