# Everything outside the tree that any folder may link, found once. README's table says why each is used.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(gRPC REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(prometheus-cpp REQUIRED)

# oneDNN's own CMake package asks for OpenCL headers that Debian's build does not use.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(trireme_dnnl INTERFACE)
target_include_directories(trireme_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
# libgomp is oneDNN's already; we call it to keep oneDNN single-threaded.
find_library(GOMP_LIBRARY NAMES gomp libgomp.so.1 REQUIRED)
target_link_libraries(trireme_dnnl INTERFACE ${DNNL_LIBRARY} ${GOMP_LIBRARY})

# Highway compiles a kernel once for each instruction set and chooses at run time. Of x86's we keep AVX-512, AVX2 and the
# portable one: the sets between save no machine worth the time to compile.
find_path(HWY_INCLUDE_DIR hwy/highway.h REQUIRED)
find_library(HWY_LIBRARY hwy REQUIRED)
add_library(trireme_highway INTERFACE)
target_include_directories(trireme_highway SYSTEM INTERFACE ${HWY_INCLUDE_DIR})
target_link_libraries(trireme_highway INTERFACE ${HWY_LIBRARY})
target_compile_definitions(trireme_highway INTERFACE HWY_SHARED_DEFINE
                           "HWY_DISABLED_TARGETS=(HWY_SSE4|HWY_SSSE3|HWY_AVX3_DL)")

# The public google/rpc/*.proto, from PyPI's googleapis-common-protos (deploy/install_dependencies.sh fetches it).
if(DEFINED ENV{XDG_CACHE_HOME})
  set(TRIREME_CACHE_DIR $ENV{XDG_CACHE_HOME}/trireme)
else()
  set(TRIREME_CACHE_DIR $ENV{HOME}/.cache/trireme)
endif()
find_path(GOOGLEAPIS_DIR google/rpc/error_details.proto
          PATHS ${TRIREME_CACHE_DIR}/googleapis NO_DEFAULT_PATH)
if(NOT GOOGLEAPIS_DIR)
  message(FATAL_ERROR "google/rpc/error_details.proto not found under ${TRIREME_CACHE_DIR}/googleapis: "
                      "run deploy/install_dependencies.sh, or set GOOGLEAPIS_DIR")
endif()
