/**
 * The field of a secret in a form. The gateway returns a stored secret as a mask, and keeps the secret if the mask is
 * sent back. The mask is shown as a placeholder, so that a person cannot append text to it.
 */
import { Button, PasswordInput } from "@mantine/core";
import type { WidgetProps } from "@rjsf/utils";
import { useState } from "react";

const MASK = /^\*{4}/;

export function SecretWidget({ id, value, disabled, readonly, required, options, onChange }: WidgetProps) {
  const [stored] = useState((): string | undefined =>
    typeof value === "string" && MASK.test(value) ? value : undefined,
  );
  const is_stored = stored !== undefined && value === stored;
  return (
    <div>
      <PasswordInput
        id={id}
        autoComplete="off"
        spellCheck={false}
        disabled={disabled === true || readonly === true}
        aria-required={required === true}
        placeholder={is_stored ? `Stored (${stored}). Type to replace it.` : undefined}
        value={is_stored ? "" : ((value as string | undefined) ?? "")}
        onChange={({ currentTarget }) =>
          onChange(currentTarget.value === "" ? (stored ?? options.emptyValue) : currentTarget.value)
        }
        visibilityToggleButtonProps={{ "aria-label": "Show what you type" }}
      />
      {is_stored && (
        <Button size="compact-xs" variant="subtle" mt={4} onClick={() => onChange(options.emptyValue)}>
          Remove the stored value
        </Button>
      )}
    </div>
  );
}
