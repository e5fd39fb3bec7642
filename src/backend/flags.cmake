# backend: instruction-set flags, a file at a time. Feature flags only, never -march=native: one program serves every CPU,
# and each of these files is entered only after cpuid.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Quantized product: -Wno-maybe-uninitialized, as g++ 12 warns about its own AVX-512 header.
  set(qmm_avx2 -mavx2 -mfma -mf16c)
  set(qmm_avx512 ${qmm_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512vbmi
      -mprefer-vector-width=512 -Wno-maybe-uninitialized -Wno-uninitialized)
  foreach(isa avx2 avx512)
    file(GLOB qmm_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cpu/qmm_*_${isa}.cc)
    set_property(SOURCE ${qmm_sources} APPEND PROPERTY COMPILE_OPTIONS ${qmm_${isa}})
  endforeach()
endif()
