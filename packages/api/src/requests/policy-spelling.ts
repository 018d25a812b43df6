/**
 * Accepts the spellings of policies in the formats from which the gateway imports plugins: `allowedToolCategories`,
 * `allowed-tool-categories`, and Hefty's `user-allowed-origins`, which is `roles.user.allow.origins`.
 */
import { BackplaneError, isObject, type JsonObject, ROLES } from "@backplane/contract";
import { ChannelPolicySchema, PolicySchema } from "@backplane/contract/schema";

const FIELDS: ReadonlySet<string> = new Set(Object.keys(PolicySchema.shape));
const CHANNEL_FIELDS: ReadonlySet<string> = new Set(Object.keys(ChannelPolicySchema.shape));

export function canonicalPolicy(body: unknown): unknown {
  if (!isObject(body)) return body;
  const policy: JsonObject = {};
  for (const [key, value] of Object.entries(body)) {
    const field = FIELDS.has(key) ? key : snakeCase(key);
    const role = ROLES.find((name) => field === `${name}_allowed_origins`);
    if (role !== undefined) {
      const roles = isObject(policy.roles) ? policy.roles : isObject(body.roles) ? body.roles : {};
      const role_policy = isObject(roles[role]) ? roles[role] : {};
      const allow = isObject(role_policy.allow) ? role_policy.allow : {};
      if (allow.origins !== undefined) throw duplicateField(key, `roles.${role}.allow.origins`);
      policy.roles = { ...roles, [role]: { ...role_policy, allow: { ...allow, origins: value } } };
      continue;
    }
    const target = FIELDS.has(field) ? field : key;
    if (target !== key && body[target] !== undefined) throw duplicateField(key, target);
    // An earlier field may already have added to `roles`.
    if (policy[target] === undefined) policy[target] = value;
  }
  return isObject(policy.channels) ? { ...policy, channels: canonicalChannels(policy.channels) } : policy;
}

function canonicalChannels(channels: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(channels).map(([name, channel_policy]) => [
      name,
      isObject(channel_policy) ? canonicalChannel(channel_policy, `channels.${name}`) : channel_policy,
    ]),
  );
}

function canonicalChannel(channel_policy: JsonObject, path: string): JsonObject {
  return Object.fromEntries(
    Object.entries(channel_policy).map(([key, value]) => {
      const field = CHANNEL_FIELDS.has(key) ? key : snakeCase(key);
      if (!CHANNEL_FIELDS.has(field)) return [key, value];
      if (field !== key && channel_policy[field] !== undefined)
        throw duplicateField(`${path}.${key}`, `${path}.${field}`);
      return [field, value];
    }),
  );
}

function snakeCase(name: string): string {
  return name.replaceAll("-", "_").replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function duplicateField(key: string, field: string): BackplaneError {
  return new BackplaneError("request.invalid", `body.${key}: ${field} is set too; use one of them`);
}
