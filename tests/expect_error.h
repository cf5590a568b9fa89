#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "wholestep/error.h"

namespace wholestep {

/// Runs `act`; it must throw `code` with every one of `parts` in the message.
template <class Act>
void expect_error(ErrorCode code, const std::vector<std::string>& parts, Act act) {
  try {
    act();
    ADD_FAILURE() << "nothing was thrown, expected " << to_string(code);
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.what();
  }
}

}  // namespace wholestep
