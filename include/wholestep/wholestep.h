#pragma once
/// All of wholestep.
#include "wholestep/array.h"
#include "wholestep/data.h"
#include "wholestep/device.h"
#include "wholestep/error.h"
#include "wholestep/graph.h"
#include "wholestep/io.h"
#include "wholestep/nn.h"
#include "wholestep/ops.h"
#include "wholestep/optim.h"
#include "wholestep/session.h"
#include "wholestep/trainer.h"
#include "wholestep/types.h"
