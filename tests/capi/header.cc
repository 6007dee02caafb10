// The header is C++ too: text that is constant, and no warning.
#include <xfer/gd2fs.h>

int main() {
  xfer_gd2fs_options options{};
  options.cp_address = "rdma";
  options.dp_address = "rdma://127.0.0.1,tcp://127.0.0.1";
  xfer_gd2fs_close(xfer_gd2fs_connect(&options));
  xfer_gd2fs_completion completion{};
  return XFER_GD2FS_STATUS_CODE(completion.status);
}
