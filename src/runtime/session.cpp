#include "wholestep/session.h"

#include "backend/backend.h"
#include "runtime/compile.h"
#include "runtime/program.h"

namespace wholestep {

CompiledGraph::CompiledGraph(std::unique_ptr<runtime::Program> program) : program_(std::move(program)) {}
CompiledGraph::CompiledGraph(CompiledGraph&&) noexcept = default;
CompiledGraph& CompiledGraph::operator=(CompiledGraph&&) noexcept = default;
CompiledGraph::~CompiledGraph() = default;

void CompiledGraph::set_param(const std::string& name, const ArrayView& data) {
  program_->residents().upload(name, data);
}
Array CompiledGraph::get_param(const std::string& name) const { return program_->residents().download(name); }

std::vector<Array> CompiledGraph::run(const Inputs& inputs) { return program_->run(inputs); }
std::vector<Array> CompiledGraph::run_read_outputs(const Inputs& inputs, const std::vector<int>& wanted) {
  return program_->run(inputs, wanted);
}

bool CompiledGraph::bind_handle(const std::string& name, const ArrayView& data) {
  return program_->bind_handle(name, data);
}
void CompiledGraph::set_handle_feed(const std::string& name, int output) { program_->set_handle_feed(name, output); }
Array CompiledGraph::read_handle(const std::string& name) const { return program_->read_handle(name); }
void CompiledGraph::share_state_of(const CompiledGraph& other) { program_->share_state_of(*other.program_); }

const Device& CompiledGraph::device() const { return program_->device(); }
bool CompiledGraph::is_resident() const { return program_->is_resident(); }
const ProgramStats& CompiledGraph::stats() const { return program_->stats(); }
const std::vector<std::pair<std::string, TensorType>>& CompiledGraph::inputs() const { return program_->inputs(); }
std::string CompiledGraph::explain() const { return program_->explain(); }

Session::Session(Device device) : device_(std::move(device)) { backend::open(device_); }

CompiledGraph Session::compile(const Graph& graph, const CompileOptions& options) const {
  return CompiledGraph(runtime::compile(graph, device_, options));
}

}  // namespace wholestep
