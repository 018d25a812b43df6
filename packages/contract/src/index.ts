/** Values and types without zod, so that a plugin which imports this starts fast. Schemas: ./schema. */
export { BackplaneError, codeOf, type ErrorDetails, toBackplaneError } from "./error.ts";
export { ERROR_CODES, type ErrorCode, type ErrorSpec, isErrorCode } from "./error-codes.ts";
export { createIdSource, ID_PREFIXES, type IdNoun, type IdSource, isId } from "./ids.ts";
export { canonicalJson, type Json, type JsonObject } from "./json.ts";
export * from "./limits.ts";
export type * from "./schema/index.ts";
export * from "./vocabulary.ts";
