import { z } from "zod";

/** Any JSON value, never undefined. */
export const JsonValueSchema = z.json();
export const JsonObjectSchema = z.record(z.string(), z.json());

export const TimestampSchema = z.iso.datetime({ offset: true }).describe("RFC 3339 timestamp");

export const PackageIdSchema = z
  .string()
  .max(128)
  .regex(
    /^[a-z0-9][a-z0-9._-]*(\/[a-z0-9][a-z0-9._-]*)+$/,
    "write publisher/name in lower case, such as acme/devkit",
  );

export const VersionSchema = z
  .string()
  .max(64)
  .regex(/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$/, "write a semantic version, such as 0.1.0");

export const ExportIdSchema = z
  .string()
  .max(64)
  .regex(/^[a-zA-Z][a-zA-Z0-9_-]*$/, "start with a letter, then letters, digits, _ and -");

export const SlotSchema = z
  .string()
  .max(64)
  .regex(/^[a-z][a-z0-9_]*$/, "write a slot in lower case, such as jira_token");

export const SecretRefSchema = z
  .string()
  .max(256)
  .regex(/^secret:\/\/[A-Za-z0-9_-]+\/[A-Za-z0-9_.-]+$/, "write secret://ORG/NAME");

export const SecretNameSchema = z
  .string()
  .max(128)
  .regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]*$/, "use letters, digits, _, . and -");

/** A path inside the package: relative, forward slashes, no `..`. */
export const PackagePathSchema = z
  .string()
  .max(512)
  .regex(
    /^(?!\/)(?!.*(^|\/)\.\.(\/|$))[^\\\0]+$/,
    "specify a file inside the package, such as schemas/config.json",
  );

export const OrgIdSchema = z
  .string()
  .max(64)
  .regex(/^org_[A-Za-z0-9_-]+$/, "an organization id starts with org_");
export const ProjectIdSchema = z
  .string()
  .max(64)
  .regex(/^proj_[A-Za-z0-9_-]+$/, "a project id starts with proj_");

/** A domain name, or `*.` and a name, with an optional port. `*` alone matches every public name. */
export const DomainSchema = z
  .string()
  .max(253)
  .regex(
    /^(\*|(\*\.)?([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]*[a-z0-9])?)(:\d{1,5})?$/,
    "write a name such as api.example.com or *.example.com",
  );

export const CapabilitySchema = z
  .string()
  .min(1, "a capability must not be empty")
  .max(128)
  .refine((value) => value.trim() === value, "a capability must not start or end with white space");

export const DigestSchema = z.string().regex(/^sha256:[0-9a-f]{64}$/, "write sha256: and 64 hex digits");
