/* The loader: opens a bundle (.tsr), says what it needs, runs it.
 *
 * The library allocates nothing, calls no operating system and no C library.
 * All memory comes from the host, all services through the table tsr_host_t.
 * Every function returns; a refusal fills a tsr_error_t that names the field,
 * what was found, what is needed and the remedy.
 *
 * The usual course:
 *
 *   tsr_open            check every byte of the image, choose an ISA variant
 *   tsr_bundle_needs    instance bytes, code bytes, pools: everything to provide
 *   tsr_load_code       copy, hash, relocate the kernels; make them executable
 *   tsr_instance_create
 *   tsr_prepare         fix the input shapes; the pools' sizes are exact now
 *   tsr_set_pool        one call per pool
 *   loop
 *     fill the memory of tsr_input
 *     tsr_run           on TSR_NEED_MEMORY enlarge the pool and call it again
 *     read tsr_output
 *
 * A bundle is constant after tsr_load_code: any number of instances may use it
 * at the same time, each from one thread at a time. The image must stay mapped
 * and unchanged as long as the bundle is used, since weights are read from it.
 *
 * Input memory is part of the arena and is reused once an input was read for
 * the last time: fill inputs before every run. Output memory is valid until
 * the next tsr_run, tsr_prepare or tsr_set_pool.
 */
#ifndef TESSERA_RUNTIME_H
#define TESSERA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_RUNTIME_VERSION 4

typedef struct tsr_bundle tsr_bundle_t;
typedef struct tsr_instance tsr_instance_t;

/* What a host's `drive` may answer. */
typedef enum tsr_driven {
  TSR_DRIVEN_DONE = 0,
  TSR_DRIVEN_NOT = 1,  /* nothing was begun: the loader executes the commands */
  TSR_DRIVEN_LOST = 2  /* begun and not ended: the run is refused */
} tsr_driven_t;

typedef enum tsr_status {
  TSR_OK = 0,
  TSR_REFUSED = 1,     /* the error says why */
  TSR_NEED_MEMORY = 2  /* tsr_run only: see tsr_memory_request */
} tsr_status_t;

/* What kind of thing was refused. */
typedef enum tsr_error_code {
  TSR_ERROR_NONE = 0,
  TSR_ERROR_ARGUMENT,    /* a call was used wrongly */
  TSR_ERROR_NOT_BUNDLE,  /* no magic */
  TSR_ERROR_VERSION,     /* a format or ABI this loader does not know */
  TSR_ERROR_SIZE,        /* truncated or with bytes appended */
  TSR_ERROR_HASH,        /* content differs from what was written */
  TSR_ERROR_STRUCTURE,   /* the manifest contradicts itself */
  TSR_ERROR_CODE,        /* a kernel image is malformed */
  TSR_ERROR_FEATURES,    /* no variant runs on this machine */
  TSR_ERROR_SHAPE,       /* an input shape breaks its contract */
  TSR_ERROR_MEMORY,      /* memory given is missing, too small or misaligned */
  TSR_ERROR_VALUE,       /* the data has no meaning for the model */
  TSR_ERROR_HOST,        /* a host service failed */
  TSR_ERROR_DEVICE       /* a device failed during a run; its memory is not to be relied on */
} tsr_error_code_t;

/* A refusal. All strings end with a null byte and may be cut. */
typedef struct tsr_error {
  int32_t code;      /* tsr_error_code_t */
  char field[96];    /* what was looked at: "input 'x' axis 1" */
  char found[96];
  char needed[96];
  char remedy[128];
  char text[480];    /* the whole as one line */
} tsr_error_t;

/* ---- host services ------------------------------------------------------ */

typedef enum tsr_protection {
  TSR_PROTECT_READ = 0,
  TSR_PROTECT_READ_EXECUTE = 1
} tsr_protection_t;

typedef struct tsr_trace_event {
  const char *kernel;       /* null-terminated; "copy", "fill", "fence" for those;
                               the name of a launch */
  const char *kernel_class; /* "" when there is none; "movement", "fence", "launch" */
  uint32_t command;         /* position in the command list */
  uint32_t workgroups;
  uint64_t begin_ns, end_ns;
  uint64_t bytes;           /* moved by a copy or fill */
  uint32_t device;          /* who did it; of a launch or fence: for whom */
} tsr_trace_event_t;

/* Every function pointer may be null. */
typedef struct tsr_host {
  uint32_t version;   /* TSR_RUNTIME_VERSION */
  uint32_t page_size; /* granule of `protect`; 0 is taken as 4096 */
  /* Names of the processor features that the operating system has enabled,
   * separated by spaces: "avx2 fma f16c ..." (names in FORMAT.md). */
  const char *features;
  /* Kinds of devices that the host drives, separated by spaces, in the words of
   * FORMAT.md: "ethos-u55-256/Ethos_U55_High_End_Embedded/Shared_Sram". "*": the
   * host has any device played by the commands behind its launches. A device of
   * the kind "segments" is always played so. */
  const char *device_kinds;
  void *context;      /* handed to every function below */
  /* Changes the protection of whole pages that are writable now. Non-zero is
   * a failure. Null: the pages are executable as they are. The instruction
   * cache has been cleaned before the call. */
  int (*protect)(void *context, void *pages, uint64_t bytes,
                 tsr_protection_t protection);
  /* Calls work(argument, i) for every i below `count` in any order on any
   * threads and returns when all are done. Null: one after the other. */
  void (*parallel)(void *context, uint64_t count,
                   void (*work)(void *argument, uint64_t index),
                   void *argument);
  /* A clock for traces. */
  uint64_t (*now_ns)(void *context);
  /* Called after every dispatch, copy, fill, launch and fence on the running
   * thread; with `submit`, on the devices' threads at the same time. */
  void (*trace)(void *context, const tsr_trace_event_t *event);
  /* Has work(argument) done by `device` (1 or more) behind what it was given
   * before, and returns at once. Non-zero is a failure. Null, or without
   * `wait`: work is done before tsr_run goes on. */
  int (*submit)(void *context, uint32_t device, void (*work)(void *argument),
                void *argument);
  /* Returns when the device has done all that was submitted. What it wrote is
   * visible then. Non-zero: the device failed, and the host has stopped it:
   * none of what was submitted is under way or will begin, since the run ends
   * without another wait and its memory may be taken back. */
  int (*wait)(void *context, uint32_t device);
  /* Has the device do launch `launch` (tsr_launch_query) by what its tool chain
   * made of it, and returns a tsr_driven_t when that is done, with the results
   * visible to the processor. Called where `submit` brought the work to, for
   * launches that have operands. Null: the commands behind every launch are
   * executed. */
  int (*drive)(void *context, tsr_instance_t *instance, uint32_t launch);
} tsr_host_t;

/* ---- opening ------------------------------------------------------------ */

/* The file size that the header in the first 128 bytes announces, or 0 if
 * these are no bundle header. For hosts that find a bundle in flash memory. */
uint64_t tsr_bundle_bytes(const void *header, uint64_t size);

/* Bytes of the bundle state, aligned to 16, that tsr_open wants. */
uint64_t tsr_bundle_state_bytes(void);

/* Checks everything: header, hashes of the manifest and of every segment, zero
 * padding, the manifest's structure, every index in the plan, the ELF images of
 * all variants; then chooses the first variant whose features the host has, or
 * exactly the one named `variant` (null: free choice). `host` is copied.
 * With `check_only` a machine that can run no variant is no reason to refuse;
 * code cannot be loaded then. */
tsr_status_t tsr_open(const void *image, uint64_t size, const tsr_host_t *host,
                      const char *variant, int check_only, void *state,
                      tsr_bundle_t **out_bundle, tsr_error_t *out_error);

#define TSR_MAX_POOLS 16
#define TSR_MAX_DEVICES 8 /* the processor among them */

typedef struct tsr_pool_need {
  const char *name;
  uint64_t bytes;     /* meaningful if `known`; of a growing pool: what to start with */
  uint32_t alignment; /* of the pool's address */
  uint8_t known;      /* 0: depends on the input shapes, ask after tsr_prepare */
  uint8_t growing;    /* tsr_run may ask for more */
  uint8_t device;     /* whose memory it is; the processor must reach all */
} tsr_pool_need_t;

/* Everything the host has to provide. */
typedef struct tsr_needs {
  uint64_t instance_bytes; /* per instance, aligned to 16 */
  uint64_t code_bytes;     /* once per bundle; writable pages; 0: no kernels */
  uint64_t code_alignment;
  uint32_t pool_count;     /* per instance */
  uint32_t has_states;     /* a run depends on those before it */
  tsr_pool_need_t pools[TSR_MAX_POOLS];
} tsr_needs_t;

void tsr_bundle_needs(const tsr_bundle_t *bundle, tsr_needs_t *out_needs);

/* Devices that the plan uses; number 0 is the processor. */
uint32_t tsr_device_count(const tsr_bundle_t *bundle);
const char *tsr_device_name(const tsr_bundle_t *bundle, uint32_t device);
const char *tsr_device_kind(const tsr_bundle_t *bundle, uint32_t device);

/* A part of the model that a device does, as the bundle has it. */
typedef struct tsr_launch {
  const char *name;
  uint32_t device;
  const void *artefact; /* made by the device's tool chain; hashed; null: none */
  uint64_t artefact_bytes;
  uint32_t operand_count; /* buffers that the artefact knows by their position */
} tsr_launch_t;

uint32_t tsr_launch_count(const tsr_bundle_t *bundle);
tsr_status_t tsr_launch_query(const tsr_bundle_t *bundle, uint32_t launch,
                              tsr_launch_t *out_launch);

/* Copies the chosen variant to `pages`, checks its hash there, relocates it,
 * cleans the instruction cache and has the host protect it. */
tsr_status_t tsr_load_code(tsr_bundle_t *bundle, void *pages, uint64_t bytes,
                           tsr_error_t *out_error);

/* ---- contracts ---------------------------------------------------------- */

/* Element types are ONNX's TensorProto.DataType numbers. Types under a byte
 * are packed, the first element in the low bits. */

typedef struct tsr_dim {
  int64_t value;    /* -1: decided by the call */
  int64_t min, max, multiple;
  const char *name; /* symbolic name or "" */
} tsr_dim_t;

/* A sequence, an optional or a tensor of strings is several tensors, one after
 * another in the list of inputs or outputs (FORMAT.md, Kinds). */
typedef enum tsr_part_kind {
  TSR_PART_TENSOR = 0,
  TSR_PART_STRINGS = 1,  /* int32 code points, a zero-padded axis more */
  TSR_PART_ELEMENTS = 2, /* of a sequence's tensors in a row; EXTENTS follow */
  TSR_PART_EXTENTS = 3,  /* int64 [number of tensors, rank] */
  TSR_PART_PRESENT = 4,  /* bool; the value of the optional follows */
  TSR_PART_STRING_ELEMENTS = 5 /* as ELEMENTS, as STRINGS */
} tsr_part_kind_t;

typedef struct tsr_tensor_info {
  const char *name;
  int32_t element_type;
  uint32_t rank;
  uint8_t kind;     /* tsr_part_kind_t */
  uint8_t optional; /* has a default value */
} tsr_tensor_info_t;

uint32_t tsr_input_count(const tsr_bundle_t *bundle);
uint32_t tsr_output_count(const tsr_bundle_t *bundle);
tsr_status_t tsr_input_info(const tsr_bundle_t *bundle, uint32_t index,
                            tsr_tensor_info_t *out_info);
tsr_status_t tsr_output_info(const tsr_bundle_t *bundle, uint32_t index,
                             tsr_tensor_info_t *out_info);
tsr_status_t tsr_input_dim(const tsr_bundle_t *bundle, uint32_t index,
                           uint32_t axis, tsr_dim_t *out_dim);
tsr_status_t tsr_output_dim(const tsr_bundle_t *bundle, uint32_t index,
                            uint32_t axis, tsr_dim_t *out_dim);

typedef struct tsr_variant_info {
  const char *name;
  uint16_t machine;      /* ELF e_machine */
  uint8_t runnable;      /* this machine has all it needs */
  uint8_t chosen;
  char missing[64];      /* first thing it lacks, "" when runnable */
} tsr_variant_info_t;

uint32_t tsr_variant_count(const tsr_bundle_t *bundle);
tsr_status_t tsr_variant_query(const tsr_bundle_t *bundle, uint32_t index,
                               tsr_variant_info_t *out_info);

/* ---- instances ---------------------------------------------------------- */

/* `memory` has tsr_needs_t.instance_bytes bytes, aligned to 16. `host` replaces
 * the bundle's table for this instance (own thread pool, own trace); null keeps
 * it. */
tsr_status_t tsr_instance_create(const tsr_bundle_t *bundle,
                                 const tsr_host_t *host, void *memory,
                                 uint64_t bytes, tsr_instance_t **out_instance,
                                 tsr_error_t *out_error);

const tsr_bundle_t *tsr_instance_bundle(const tsr_instance_t *instance);

typedef struct tsr_shape {
  const int64_t *dims; /* null: input not given, its default value is used */
  uint32_t rank;
} tsr_shape_t;

/* Fixes the shapes of the inputs, in order. `shapes` may be null when every
 * dimension is static and no input has a default. May be called again. Checks
 * each dimension against its contract, and that dimensions of one symbol are
 * equal. Pool contents and outputs are lost, states are reset. */
tsr_status_t tsr_prepare(tsr_instance_t *instance, const tsr_shape_t *shapes,
                         uint32_t count, tsr_error_t *out_error);

/* Bytes that a pool needs for the prepared shapes (of a growing pool: what the
 * last run used at most, or 0). */
uint64_t tsr_pool_bytes(const tsr_instance_t *instance, uint32_t pool);

/* Gives a pool its memory. While a run is suspended the first bytes must be
 * those of the old memory. */
tsr_status_t tsr_set_pool(tsr_instance_t *instance, uint32_t pool, void *memory,
                          uint64_t bytes, tsr_error_t *out_error);

typedef struct tsr_tensor {
  void *data;           /* may be null when bytes is 0 */
  uint64_t bytes;       /* of the elements */
  const int64_t *dims;  /* valid as long as the instance's shapes are */
  uint32_t rank;
  int32_t element_type;
} tsr_tensor_t;

/* Memory to fill before a run. An input whose default value is used refuses. */
tsr_status_t tsr_input(tsr_instance_t *instance, uint32_t index,
                       tsr_tensor_t *out_tensor, tsr_error_t *out_error);

/* Runs, or goes on with a suspended run. */
tsr_status_t tsr_run(tsr_instance_t *instance, tsr_error_t *out_error);

/* After TSR_NEED_MEMORY: the pool and the bytes it must have at least. Enlarge
 * it, keeping its contents (the address may change), tsr_set_pool, tsr_run. */
void tsr_memory_request(const tsr_instance_t *instance, uint32_t *out_pool,
                        uint64_t *out_bytes);

/* Result of the last complete run. */
tsr_status_t tsr_output(tsr_instance_t *instance, uint32_t index,
                        tsr_tensor_t *out_tensor, tsr_error_t *out_error);

#define TSR_NO_POOL 0xffffffffu

typedef struct tsr_operand {
  void *data;
  uint64_t bytes;
  uint32_t pool;   /* TSR_NO_POOL: a constant, never written */
  uint64_t offset; /* in the pool */
} tsr_operand_t;

/* Where an operand of a launch lies now; from the moment that its pool has
 * memory. A run may move it where the plan has loops. */
tsr_status_t tsr_launch_operand(const tsr_instance_t *instance, uint32_t launch,
                                uint32_t operand, tsr_operand_t *out_operand);

/* Zeroes the states. */
tsr_status_t tsr_reset(tsr_instance_t *instance, tsr_error_t *out_error);

#ifdef __cplusplus
}
#endif
#endif
