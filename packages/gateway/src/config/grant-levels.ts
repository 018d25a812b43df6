/** The widest grant that calls in an org or a project can get. A missing field sets no limit. */
import { DELEGATION_SCOPES, EXECUTION_CLASSES, FILESYSTEM_ACCESS, NETWORK_ACCESS } from "@backplane/contract";
import {
  CapabilitySchema,
  DomainSchema,
  ExportIdSchema,
  OrgIdSchema,
  SlotSchema,
} from "@backplane/contract/schema";
import { z } from "zod";

const LevelSchema = z.strictObject({
  /** The minimum isolation. */
  class: z.enum(EXECUTION_CLASSES).optional(),
  network: z.enum(NETWORK_ACCESS).optional(),
  allowed_domains: z.array(DomainSchema).optional(),
  filesystem: z.enum(FILESYSTEM_ACCESS).optional(),
  mounts: z.boolean().optional(),
  gateway_api_scopes: z.array(z.enum(DELEGATION_SCOPES)).optional(),
  secret_slots: z.array(SlotSchema).optional(),
  capabilities: z.array(CapabilitySchema).optional(),
  /** The tools that a call may invoke through the gateway. */
  tools: z.array(ExportIdSchema).optional(),
});

export const OrgLevelsSchema = z.record(OrgIdSchema, LevelSchema).default({});
export const ProjectLevelsSchema = z
  .record(
    z.string().regex(/^org_[A-Za-z0-9_-]+\/proj_[A-Za-z0-9_-]+$/, "must have the form ORG/PROJECT"),
    LevelSchema,
  )
  .default({});
