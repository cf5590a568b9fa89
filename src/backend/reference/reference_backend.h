#pragma once
#include <memory>

#include "backend/backend.h"

namespace wholestep::reference {

/// The device "reference": graphs interpreted one node after another on host buffers.
std::shared_ptr<backend::Backend> make_backend();

}  // namespace wholestep::reference
