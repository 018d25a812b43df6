/** The masking rule (config.mask). Who needs the value itself asks for it on purpose. */
import { isSecretConfigKey, type Json } from "@backplane/contract";

const MASK = "****";
const SHOWN = 4;

export function maskValue(key: string, value: Json): Json {
  if (!isSecretConfigKey(key)) return value;
  return typeof value === "string" && value.length > SHOWN ? `${MASK}${value.slice(-SHOWN)}` : MASK;
}
