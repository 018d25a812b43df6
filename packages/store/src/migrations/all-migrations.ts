import { foundation } from "./0001-foundation.ts";
import { sessions } from "./0002-sessions.ts";
import { config } from "./0003-config.ts";
import { runs } from "./0004-runs.ts";
import { lanes } from "./0005-lanes.ts";
import { definitions } from "./0006-definitions.ts";
import { policy } from "./0007-policy.ts";
import { spans } from "./0008-spans.ts";
import { artifacts } from "./0009-artifacts.ts";
import { signIns } from "./0010-sign-ins.ts";
import { loginBrowsers } from "./0011-login-browsers.ts";
import { sampling } from "./0012-sampling.ts";
import { secretOwners } from "./0013-secret-owners.ts";
import { rowSums } from "./0014-row-sums.ts";
import { runFences } from "./0015-run-fences.ts";
import { runFirstEntries } from "./0016-run-first-entries.ts";
import { allowRules } from "./0017-allow-rules.ts";
import { eventIds } from "./0018-event-ids.ts";
import { executions } from "./0021-executions.ts";
import { pins } from "./0022-pins.ts";
import { deliveries } from "./0023-deliveries.ts";
import { llmCalls } from "./0025-llm-calls.ts";
import { trustedKeys } from "./0026-trusted-keys.ts";
import { bindingRevisions } from "./0028-binding-revisions.ts";
import { jobIndexes } from "./0029-job-indexes.ts";
import { traces } from "./0030-traces.ts";
import { sharedPackages } from "./0031-shared-packages.ts";
import { runEndpointUsage } from "./0032-run-endpoint-usage.ts";
import { keptSettings } from "./0033-kept-settings.ts";
import type { Migration } from "./migration.ts";
import { newestVersion } from "./schema-version.ts";

/** In the order in which they are applied. The version of the last migration is the schema that this build writes. */
export const MIGRATIONS: readonly Migration[] = [
  foundation,
  sessions,
  config,
  runs,
  lanes,
  definitions,
  policy,
  spans,
  artifacts,
  signIns,
  loginBrowsers,
  sampling,
  secretOwners,
  rowSums,
  runFences,
  runFirstEntries,
  allowRules,
  eventIds,
  executions,
  pins,
  deliveries,
  llmCalls,
  trustedKeys,
  bindingRevisions,
  jobIndexes,
  traces,
  sharedPackages,
  runEndpointUsage,
  keptSettings,
];

export const SCHEMA_VERSION = newestVersion(MIGRATIONS);
