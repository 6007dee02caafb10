// Signals: kept away from the core's threads, so that the program's own threads get them, and
// Python's main thread at once.
#pragma once

#include <pthread.h>

#include <csignal>

namespace gd2fs {

/// While it lives, threads that are started inherit a mask that blocks every signal.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace gd2fs
