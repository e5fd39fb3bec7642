# backend: instruction-set flags, a file at a time. Feature flags only: one program serves every CPU, and nothing enters
# these files before cpuid has said that it may.

# The row kernels of the ops. -Wno-psabi: vectors never leave an inlined function. They need less than the files of the
# quantized product do, and run on every AVX-512 machine.
set(row_flags -Wno-psabi -fno-math-errno)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12's own AVX-512 header reads its _mm512_undefined_*() on purpose.
  list(APPEND row_flags -Wno-maybe-uninitialized -Wno-uninitialized)
endif()
set(row_file ${PROJECT_SOURCE_DIR}/src/backend/cpu/row_kernels_)
set_source_files_properties(${row_file}scalar.cc PROPERTIES COMPILE_OPTIONS "${row_flags}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND row_flags -mavx2 -mfma -mf16c)
  set_source_files_properties(${row_file}avx2.cc PROPERTIES COMPILE_OPTIONS "${row_flags}")
  list(APPEND row_flags -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
  set_source_files_properties(${row_file}avx512.cc PROPERTIES COMPILE_OPTIONS "${row_flags}")

  # The quantized product.
  set(qmm_avx2 -mavx2 -mfma -mf16c)
  set(qmm_avx512 ${qmm_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512vbmi
      -mprefer-vector-width=512)
  set(qmm_avxvnni ${qmm_avx2} -mavxvnni)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND qmm_avx512 -Wno-maybe-uninitialized -Wno-uninitialized)
  endif()
  foreach(isa avx2 avxvnni avx512)
    file(GLOB qmm_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cpu/qmm_*_${isa}.cc)
    if(qmm_sources)
      set_source_files_properties(${qmm_sources} PROPERTIES COMPILE_OPTIONS "${qmm_${isa}}")
    endif()
  endforeach()
endif()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set_source_files_properties(${row_file}neon.cc PROPERTIES COMPILE_OPTIONS "${row_flags}")
  set(tile_file ${PROJECT_SOURCE_DIR}/src/backend/cpu/qmm_tile_neon)
  set_source_files_properties(${tile_file}dotprod.cc PROPERTIES COMPILE_OPTIONS -march=armv8.2-a+dotprod)
  set_source_files_properties(${tile_file}i8mm.cc PROPERTIES COMPILE_OPTIONS -march=armv8.2-a+dotprod+i8mm)
endif()

# Fuzzing and sanitizer runs are about parsers; instrumented row kernels take a compiler minutes each.
if(LOFT_FUZZ)
  file(GLOB row_kernel_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cpu/row_kernels_*.cc
       ${PROJECT_SOURCE_DIR}/src/backend/cpu/qmm_*_avx*.cc)
  set_property(SOURCE ${row_kernel_sources} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all)
endif()
