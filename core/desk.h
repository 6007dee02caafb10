// Desk: where a node's questions wait for whoever runs it. The core knows no settings and no rules
// of a site; the process around it takes the questions one by one, and answers from a thread of its
// own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace gd2fs {

class Desk {
 public:
  /// Nothing: nobody will answer any more.
  using OnAnswer = std::function<void(std::optional<std::string>)>;
  struct Question {
    std::uint64_t number = 0;
    std::string text;
  };

  /// `on_answer` runs once: on the answering thread, or on the one that closes the desk, or here
  /// when nobody sits there or QUESTIONS_MAX wait.
  void ask(std::string text, OnAnswer on_answer);

  /// Whoever takes sits there from the first time on. Nothing came within `timeout_ms`: nothing.
  std::optional<Question> take(std::int64_t timeout_ms);
  /// Each at most once; a number that is not open is ignored.
  void answer(std::uint64_t number, std::string text);
  /// Answers all that is open with nothing, and all to come.
  void close();

 private:
  std::mutex mutex_;  // Guards: all below. Held for look-ups.
  std::condition_variable asked_;
  bool is_manned_ = false;
  bool is_closed_ = false;
  std::uint64_t last_ = 0;
  std::deque<Question> waiting_;
  std::map<std::uint64_t, OnAnswer> open_;
};

}  // namespace gd2fs
