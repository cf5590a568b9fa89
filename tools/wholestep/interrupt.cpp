#include "interrupt.h"

#include <csignal>

namespace wholestep::cli {
namespace {

volatile std::sig_atomic_t signalled = 0;

void on_signal(int) { signalled = 1; }

void handle(int signal, void (*handler)(int), unsigned flags = 0) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(flags | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

bool is_ignored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void catch_interrupts() {
  handle(SIGINT, on_signal, SA_RESETHAND);
  handle(SIGTERM, on_signal, SA_RESETHAND);
  // A terminal that goes away says so itself, and its shell once more; under nohup nobody wants to hear of it.
  if (!is_ignored(SIGHUP)) handle(SIGHUP, on_signal);
  handle(SIGPIPE, SIG_IGN);  // the write says that there is no reader
}

bool interrupted() { return signalled != 0; }

}  // namespace wholestep::cli
