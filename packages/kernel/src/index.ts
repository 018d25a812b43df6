export type * from "./facade.ts";
export type * from "./ports/index.ts";
