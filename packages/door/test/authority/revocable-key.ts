/** A stored key that a test can revoke, with its caller. */

import type { KeyCreate } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { admin, type TestKernel } from "@backplane/test-kit/kernel/test-kernel";

export interface RevocableKey {
  id: string;
  caller: Caller;
  revoke(): Promise<void>;
}

export async function createRevocableKey(
  { kernel }: Pick<TestKernel, "kernel">,
  more: Partial<KeyCreate> = {},
): Promise<RevocableKey> {
  const scopes: KeyCreate["scopes"] = ["invocations:write", "sessions:write", "sessions:read"];
  const { key, token } = await kernel.keys.create(admin, { name: "worker", role: "user", scopes, ...more });
  return {
    id: key.id,
    caller: await kernel.keys.authenticate(token),
    revoke: () => kernel.keys.revoke(admin, key.id),
  };
}
