# cmake -DSOURCE=tree -DTARGET=header -P build_facts.cmake: commit and state of the tree at this build. The header is
# written only when it says something new, so that a build without a commit in between compiles nothing.
execute_process(COMMAND git rev-parse --short=12 HEAD WORKING_DIRECTORY ${SOURCE}
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
execute_process(COMMAND git status --porcelain --untracked-files=no WORKING_DIRECTORY ${SOURCE}
                OUTPUT_VARIABLE changes ERROR_QUIET)
if(NOT commit)
  set(commit "unknown")
endif()
set(dirty 0)
if(changes)
  set(dirty 1)
endif()
set(text "#define LOFT_COMMIT \"${commit}\"\n#define LOFT_DIRTY ${dirty}\n")
set(old "")
if(EXISTS ${TARGET})
  file(READ ${TARGET} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${TARGET} "${text}")
endif()
