/**
 * The request that tells the runner which process of a binding to use: the same one that calls to its exports use.
 */
import type { PluginExport } from "@backplane/contract";
import type { BoundPackage, KernelDeps, ProcessRequest, Scope } from "@backplane/ports";
import { effectiveConfig } from "../config/effective-config.ts";
import { poolKey } from "../exports/export-plan.ts";
import { combineTools } from "../exports/whole-package.ts";
import { levelBeforeCall, toGrant, withSecretEnv } from "../grant/effective-grant.ts";
import { effectiveClass } from "../grant/execution-class.ts";
import { intersect } from "../grant/intersect.ts";
import type { Policies } from "../policy/policies.ts";
import type { SignInTokens } from "../secrets/sign-in-tokens.ts";

/** Creates the request without secrets, which are read each time it is sent. */
export async function createProcessRequest(
  deps: Pick<KernelDeps, "host">,
  policies: Pick<Policies, "getEffective">,
  bound: BoundPackage,
  scope: Scope,
  /** The export whose process is used; by default all tools of the package. */
  item: PluginExport = combineTools(bound.package)!,
): Promise<ProcessRequest> {
  const { binding, package: pack } = bound;
  const level = levelBeforeCall(
    { binding, package: pack, export: item },
    effectiveClass(binding, item),
    scope,
    deps.host,
  );
  // The host level of the policy narrows this process as it narrows any call.
  const { ceiling } = await policies.getEffective(scope);
  const narrowed = ceiling === undefined ? level : intersect(level, ceiling);
  const grant = withSecretEnv(toGrant(narrowed), binding.policy);
  const { package_id, version, digest, manifest } = pack;
  return {
    package: { package_id, version, digest, runtime: manifest.runtime },
    binding_id: binding.binding_id,
    pool_key: poolKey({ binding, package: pack }, scope, grant),
    grant,
    class: grant.class,
    context: {
      org_id: scope.org_id,
      ...(scope.project_id === null ? {} : { project_id: scope.project_id }),
      config: effectiveConfig(deps.host, bound),
      secrets: {},
      grant,
    },
  };
}

/**
 * Sends a request with the secrets of the binding, and sends it again if the server refuses the token and there is a
 * newer one.
 */
export async function sendProcessRequest<T>(
  tokens: Pick<SignInTokens, "sendWithSecrets">,
  bound: BoundPackage,
  request: ProcessRequest,
  send: (request: ProcessRequest) => Promise<T>,
): Promise<T> {
  return await tokens.sendWithSecrets(bound, request.grant, (secrets) =>
    send({ ...request, context: { ...request.context, secrets } }),
  );
}
