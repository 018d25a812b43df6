import { TextInput } from "@mantine/core";
import { useEffect, useState } from "react";

export interface TextFilterProps {
  label: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}

/** The filter is applied with Enter or when the field loses the focus, because each change causes a request. */
export function TextFilter({ label, value, onChange }: TextFilterProps) {
  const [text, setText] = useState(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  const apply = () => {
    const next = text.trim() === "" ? undefined : text.trim();
    if (next !== value) onChange(next);
  };
  return (
    <TextInput
      aria-label={label}
      placeholder={`Any ${label.toLowerCase()}`}
      value={text}
      onChange={({ currentTarget }) => setText(currentTarget.value)}
      onBlur={apply}
      onKeyDown={({ key }) => {
        if (key === "Enter") apply();
      }}
    />
  );
}
