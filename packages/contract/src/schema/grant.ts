/** The permissions of one invocation: computed per invocation, recorded, sent to the plugin and enforced. */
import { z } from "zod";
import {
  DELEGATION_SCOPES,
  EXECUTION_CLASSES,
  FILESYSTEM_ACCESS,
  NETWORK_ACCESS,
} from "../vocabulary/vocabulary.ts";

export const MountSchema = z.strictObject({
  source: z.string().min(1).max(4096).describe("folder on the host"),
  target: z.string().min(1).max(4096).describe("path inside the sandbox"),
  writable: z.boolean().default(false),
});

export const GrantSchema = z.strictObject({
  class: z.enum(EXECUTION_CLASSES),
  network: z.enum(NETWORK_ACCESS),
  allowed_domains: z.array(z.string()),
  filesystem: z.enum(FILESYSTEM_ACCESS),
  mounts: z.array(MountSchema),
  gateway_api_scopes: z.array(z.enum(DELEGATION_SCOPES)),
  secret_slots: z.array(z.string()),
  /** Slots that the operator delivers as environment variables, for dialects with no other channel. */
  secret_env: z.record(z.string(), z.string()).optional(),
  capabilities: z.array(z.string()),
  /** Tools that the invocation may call through the gateway; null allows all that its scopes allow. */
  tools: z.array(z.string()).nullable(),
  /** True if the tool runs on the gateway's machine outside the sandbox: it asks to, and the admin allows it. */
  host: z.boolean().optional(),
});

export type Mount = z.infer<typeof MountSchema>;
export type Grant = z.infer<typeof GrantSchema>;
