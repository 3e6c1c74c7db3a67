/* The part of LiteRT's C API that the decoder uses, declared for libLiteRt.so 2.3.
 *
 * The library's wheel comes without headers. Everything below was checked against the exported symbols and
 * by running; a LiteRT with another ABI is refused by et_litert_create's probes of the model's tensors. */
#ifndef ET_LITERT_C_API_H
#define ET_LITERT_C_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct LiteRtEnvironmentT *LiteRtEnvironment;
typedef struct LiteRtModelT *LiteRtModel;
typedef struct LiteRtSignatureT *LiteRtSignature;
typedef struct LiteRtSubgraphT *LiteRtSubgraph;
typedef struct LiteRtTensorT *LiteRtTensor;
typedef struct LiteRtOptionsT *LiteRtOptions;
typedef struct LiteRtOpaqueOptionsT *LiteRtOpaqueOptions;
typedef struct LiteRtCompiledModelT *LiteRtCompiledModel;
typedef struct LiteRtTensorBufferT *LiteRtTensorBuffer;
typedef struct LiteRtTensorBufferRequirementsT *LiteRtTensorBufferRequirements;

typedef int LiteRtStatus; /* 0 is success */
typedef size_t LiteRtParamIndex;

enum { LITERT_OK = 0 };
enum { LITERT_HW_CPU = 1, LITERT_HW_GPU = 2 };             /* bits of a hardware accelerator set */
enum { LITERT_LOCK_READ = 0, LITERT_LOCK_WRITE = 1 };      /* lock modes */
enum { LITERT_TYPE_FLOAT32 = 1, LITERT_TYPE_INT32 = 2 };   /* element types */
enum { LITERT_TENSOR_RANKED = 0 };                         /* tensor type ids */
enum { LITERT_BUFFER_HOST_MEMORY = 1 };                    /* tensor buffer types */
enum { LITERT_HOST_ALIGNMENT = 64 };                       /* bytes, of host memory tensor buffers */
enum { LITERT_MAX_RANK = 8 };

/* Environment options: tags and the values they take. */
enum { LITERT_ENV_AUTO_REGISTER_ACCELERATORS = 24, LITERT_ENV_MIN_LOG_SEVERITY = 25 };
enum { LITERT_ANY_INT = 2 };
enum { LITERT_LOG_ERROR = 4 };

typedef struct {
    int type;
    union {
        bool bool_value;
        int64_t int_value;
        double real_value;
        const char *str_value;
        const void *ptr_value;
    };
} LiteRtAny;

typedef struct {
    int tag;
    LiteRtAny value;
} LiteRtEnvOption;

typedef struct {
    unsigned int rank : 7;
    unsigned int has_strides : 1;
    int32_t dimensions[LITERT_MAX_RANK];
    uint32_t strides[LITERT_MAX_RANK];
} LiteRtLayout;

typedef struct {
    int element_type;
    LiteRtLayout layout;
} LiteRtRankedTensorType;

_Static_assert(sizeof(LiteRtEnvOption) == 24 || sizeof(void *) == 4, "LiteRtEnvOption");
_Static_assert(sizeof(LiteRtRankedTensorType) == 72, "LiteRtRankedTensorType");

LiteRtStatus LiteRtCreateEnvironment(int n_options, const LiteRtEnvOption *options, LiteRtEnvironment *env);
void LiteRtDestroyEnvironment(LiteRtEnvironment env);

LiteRtStatus LiteRtCreateModelFromFile(LiteRtEnvironment env, const char *path, LiteRtModel *model);
void LiteRtDestroyModel(LiteRtModel model);
LiteRtStatus LiteRtGetNumModelSignatures(LiteRtModel model, LiteRtParamIndex *n);
LiteRtStatus LiteRtGetModelSignature(LiteRtModel model, LiteRtParamIndex i, LiteRtSignature *signature);
LiteRtStatus LiteRtGetSignatureKey(LiteRtSignature signature, const char **key);
LiteRtStatus LiteRtGetSignatureSubgraph(LiteRtSignature signature, LiteRtSubgraph *subgraph);
LiteRtStatus LiteRtGetNumSignatureInputs(LiteRtSignature signature, LiteRtParamIndex *n);
LiteRtStatus LiteRtGetSignatureInputName(LiteRtSignature signature, LiteRtParamIndex i, const char **name);
LiteRtStatus LiteRtGetSignatureInputTensor(LiteRtSignature signature, const char *name, LiteRtTensor *tensor);
LiteRtStatus LiteRtGetNumSignatureOutputs(LiteRtSignature signature, LiteRtParamIndex *n);
LiteRtStatus LiteRtGetSignatureOutputName(LiteRtSignature signature, LiteRtParamIndex i, const char **name);
LiteRtStatus LiteRtGetSignatureOutputTensor(LiteRtSignature signature, const char *name, LiteRtTensor *tensor);
LiteRtStatus LiteRtGetNumSubgraphInputs(LiteRtSubgraph subgraph, LiteRtParamIndex *n);
LiteRtStatus LiteRtGetSubgraphInput(LiteRtSubgraph subgraph, LiteRtParamIndex i, LiteRtTensor *tensor);
LiteRtStatus LiteRtGetNumSubgraphOutputs(LiteRtSubgraph subgraph, LiteRtParamIndex *n);
LiteRtStatus LiteRtGetSubgraphOutput(LiteRtSubgraph subgraph, LiteRtParamIndex i, LiteRtTensor *tensor);
LiteRtStatus LiteRtGetTensorTypeId(LiteRtTensor tensor, int *type_id);
LiteRtStatus LiteRtGetRankedTensorType(LiteRtTensor tensor, LiteRtRankedTensorType *type);

LiteRtStatus LiteRtCreateOptions(LiteRtOptions *options);
void LiteRtDestroyOptions(LiteRtOptions options);
LiteRtStatus LiteRtSetOptionsHardwareAccelerators(LiteRtOptions options, int accelerators);
/* The options take over the opaque ones. */
LiteRtStatus LiteRtAddOpaqueOptions(LiteRtOptions options, LiteRtOpaqueOptions opaque);
/* Options of one component, as TOML text; CPU: identifier "xnnpack". */
LiteRtStatus LiteRtCreateOpaqueOptions(const char *identifier, void *data, void (*free_data)(void *),
                                       LiteRtOpaqueOptions *opaque);
void LiteRtDestroyOpaqueOptions(LiteRtOpaqueOptions opaque);

LiteRtStatus LiteRtCreateCompiledModel(LiteRtEnvironment env, LiteRtModel model, LiteRtOptions options,
                                       LiteRtCompiledModel *compiled);
void LiteRtDestroyCompiledModel(LiteRtCompiledModel compiled);
LiteRtStatus LiteRtCompiledModelIsFullyAccelerated(LiteRtCompiledModel compiled, bool *fully);
LiteRtStatus LiteRtGetCompiledModelInputBufferRequirements(LiteRtCompiledModel compiled, LiteRtParamIndex sig,
                                                           LiteRtParamIndex i, LiteRtTensorBufferRequirements *req);
LiteRtStatus LiteRtGetCompiledModelOutputBufferRequirements(LiteRtCompiledModel compiled, LiteRtParamIndex sig,
                                                            LiteRtParamIndex i, LiteRtTensorBufferRequirements *req);
/* Shapes that the compiled model computes; with update_allocation after propagating them. */
LiteRtStatus LiteRtGetCompiledModelOutputTensorLayouts(LiteRtCompiledModel compiled, LiteRtParamIndex sig, size_t n,
                                                       LiteRtLayout *layouts, bool update_allocation);
LiteRtStatus LiteRtGetNumTensorBufferRequirementsSupportedBufferTypes(LiteRtTensorBufferRequirements req, int *n);
LiteRtStatus LiteRtGetTensorBufferRequirementsSupportedTensorBufferType(LiteRtTensorBufferRequirements req, int i,
                                                                        int *type);
LiteRtStatus LiteRtGetTensorBufferRequirementsBufferSize(LiteRtTensorBufferRequirements req, size_t *bytes);
/* Buffers are given in the order of the subgraph's inputs and outputs. */
LiteRtStatus LiteRtRunCompiledModel(LiteRtCompiledModel compiled, LiteRtParamIndex sig, size_t n_inputs,
                                    LiteRtTensorBuffer *inputs, size_t n_outputs, LiteRtTensorBuffer *outputs);

/* Wraps memory that the caller owns; it must be aligned and outlive the buffer. */
LiteRtStatus LiteRtCreateTensorBufferFromHostMemory(const LiteRtRankedTensorType *type, void *memory, size_t bytes,
                                                    void (*free_memory)(void *), LiteRtTensorBuffer *buffer);
/* Memory of the kind that the requirements name first, a GPU's for the GPU. */
LiteRtStatus LiteRtCreateManagedTensorBufferFromRequirements(LiteRtEnvironment env, const LiteRtRankedTensorType *type,
                                                             LiteRtTensorBufferRequirements req,
                                                             LiteRtTensorBuffer *buffer);
/* The buffer's content in host memory until it is unlocked, which also writes it back. */
LiteRtStatus LiteRtLockTensorBuffer(LiteRtTensorBuffer buffer, void **memory, int mode);
LiteRtStatus LiteRtUnlockTensorBuffer(LiteRtTensorBuffer buffer);
void LiteRtDestroyTensorBuffer(LiteRtTensorBuffer buffer);

#endif
