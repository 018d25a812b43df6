import type { StatementHook } from "./connection.ts";

/**
 * Names a module whose default export is called before each writing statement, as `(text, data)`. A name and
 * not a function, because it has to reach the writer's thread. For fault tests only.
 */
export interface HookModule {
  module: string;
  data?: unknown;
}

export async function loadHook(hook: HookModule | undefined): Promise<StatementHook | undefined> {
  if (hook === undefined) return undefined;
  const loaded = (await import(hook.module)) as { default: (text: string, data: unknown) => void };
  return (text) => loaded.default(text, hook.data);
}
