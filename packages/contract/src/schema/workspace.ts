/** A folder of the gateway's machine that the operator trusts: its tool files are tools. */
import { z } from "zod";
import { DigestSchema, TimestampSchema } from "./scalars.ts";

export const WorkspaceFileSchema = z.object({ path: z.string(), size: z.int(), sha256: z.string() });

export const WorkspaceChangeSchema = z.object({
  path: z.string(),
  change: z.enum(["added", "changed", "removed"]),
  size: z.int(),
});

export const WorkspaceFolderSchema = z.object({
  id: z.string(),
  path: z.string(),
  /** workspace: only its `tools` folder, ahead of built-in tools. plugin: the whole folder, as a plugin. */
  kind: z.enum(["workspace", "plugin"]),
  /** Later edits are trusted too, and loaded when they are saved. */
  watch: z.boolean(),
  /** changed: files differ from what was trusted, and wait. missing: the folder cannot be read. */
  state: z.enum(["loaded", "changed", "missing"]),
  package_id: z.string(),
  package_version: z.string(),
  binding_id: z.string(),
  /** Of the files on the disk that were last taken; the package holds what of them works. */
  digest: DigestSchema,
  /** Files whose last save does not load, with why; their last good version is in use if there was one. */
  errors: z.record(z.string(), z.string()),
  changes: z.array(WorkspaceChangeSchema),
  trusted_at: TimestampSchema,
  trusted_by: z.string(),
  loaded_at: TimestampSchema,
});

/** `workspaces.json` of a home: what is kept of trusted folders beyond what is shown. */
export const TrustedFoldersSchema = z.object({
  folders: z.array(
    WorkspaceFolderSchema.omit({ state: true, changes: true }).extend({
      org_id: z.string(),
      project_id: z.string().nullable(),
      /** As they were when they were trusted, or with `watch` when they were last loaded. */
      files: z.array(WorkspaceFileSchema),
      /** Ids of the packages that hold what was loaded, the one in use last. */
      snapshots: z.array(z.string()),
    }),
  ),
});

/** What would be trusted: every file, and what of it is new since the folder was last trusted. */
export const WorkspaceReviewSchema = z.object({
  path: z.string(),
  kind: z.enum(["workspace", "plugin"]),
  digest: DigestSchema,
  files: z.array(WorkspaceFileSchema),
  changes: z.array(WorkspaceChangeSchema.extend({ text: z.string().nullable() })),
  trusted: WorkspaceFolderSchema.nullable(),
});

export const WorkspaceTrustSchema = z.strictObject({
  path: z.string().min(1).max(4096).describe("an absolute path on the gateway's machine"),
  kind: z.enum(["workspace", "plugin"]).default("workspace"),
  watch: z.boolean().default(false),
  /** What was reviewed: if the files are others by now, nothing is trusted. */
  digest: DigestSchema.optional(),
});

export type WorkspaceFile = z.infer<typeof WorkspaceFileSchema>;
export type WorkspaceChange = z.infer<typeof WorkspaceChangeSchema>;
export type WorkspaceFolder = z.infer<typeof WorkspaceFolderSchema>;
export type TrustedFolder = z.infer<typeof TrustedFoldersSchema>["folders"][number];
export type WorkspaceReview = z.infer<typeof WorkspaceReviewSchema>;
export type WorkspaceTrust = z.infer<typeof WorkspaceTrustSchema>;
