import { PLUGIN_PATH } from "@backplane/runner";
import { findPythonTools, missingPip } from "@backplane/supply";
import type { DoctorCheck } from "./check.ts";

/** Never a problem of the gateway, because only packages of a Python index need these programs. */
export async function checkPython(
  gateway_path = process.env.PATH ?? "",
  plugin_path: readonly string[] = PLUGIN_PATH,
): Promise<DoctorCheck> {
  const row = { name: "python", status: "ok" } as const;
  try {
    const { python, version, pip, uv } = await findPythonTools({ plugin_path, gateway_path, env: {} });
    if (pip === null && uv === null) throw missingPip(python);
    const installer = pip === null ? "uv, which fetches pip" : "pip";
    return { ...row, message: `${python} (${version}) with ${installer}` };
  } catch (error) {
    const { fix } = error as { fix?: string };
    const remedy = fix === undefined ? "" : ` To install such packages: ${fix}`;
    return { ...row, message: `no pypi: packages. ${(error as Error).message}${remedy}` };
  }
}
