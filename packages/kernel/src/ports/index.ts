/** What the kernel needs from outside, and who may implement it: store, runner, supply, gateway. */
export type * from "./access-store.ts";
export type * from "./approval-store.ts";
export type * from "./binding-store.ts";
export type * from "./clock.ts";
export type * from "./config-store.ts";
export type * from "./facts.ts";
export type * from "./invocation-store.ts";
export type * from "./log.ts";
export type * from "./package-files.ts";
export type * from "./package-store.ts";
export type * from "./queue-store.ts";
export type * from "./runner.ts";
export type * from "./schemas.ts";
export type * from "./scope.ts";
export type * from "./session-store.ts";
export type * from "./store.ts";
