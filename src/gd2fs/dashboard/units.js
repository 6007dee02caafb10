// Units: numbers as people read them. What is not known is a dash, which is not 0.
const NOTHING = "–";

function scaled(value, step, prefixes) {
  let at = 0;
  while (value >= step * 0.9995 && at < prefixes.length - 1) {
    value /= step;
    at += 1;
  }
  return [value, prefixes[at]];
}

// 9.99, 99.9, 999: three digits, and no zeros that say nothing.
function threeDigits(value) {
  if (value === 0) return "0";
  return value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

// Stored bytes count in powers of 1024: "1.50 GiB".
function bytes(count) {
  if (count == null) return NOTHING;
  if (count < 1024) return `${count} B`;
  const [value, prefix] = scaled(count, 1024, ["", "Ki", "Mi", "Gi", "Ti", "Pi"]);
  return `${threeDigits(value)} ${prefix}B`;
}

// Bytes on their way count in powers of 1000, as networks do: "1.50 GB/s".
function rate(bytesPerS) {
  if (bytesPerS == null) return NOTHING;
  const [value, prefix] = scaled(bytesPerS, 1000, ["", "k", "M", "G", "T"]);
  return `${threeDigits(value)} ${prefix}B/s`;
}

function count(number) {
  if (number == null) return NOTHING;
  if (number < 10000) return number.toLocaleString("en", { maximumFractionDigits: 0 });
  const [value, prefix] = scaled(number, 1000, ["", "k", "M", "G", "T"]);
  return `${threeDigits(value)}${prefix}`;
}

// Only all of it is 100 %, and only none of it is 0 %.
function share(part) {
  if (part == null) return NOTHING;
  const percent = 100 * part;
  if (percent <= 0 || percent >= 100) return `${percent.toFixed(0)} %`;
  return `${Math.min(99.9, Math.max(0.1, percent)).toFixed(1)} %`;
}

function milliseconds(ms) {
  if (ms == null) return NOTHING;
  return ms >= 10000 ? `${threeDigits(ms / 1000)} s` : `${threeDigits(ms)} ms`;
}

function span(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, name] = units.find(([each]) => seconds >= each) ?? [1, "s"];
  return `${Math.max(0, Math.floor(seconds / size))} ${name}`;
}

function clock(ms) {
  return new Date(ms).toLocaleTimeString("en-GB");
}

function ratio(part, whole) {
  return whole ? part / whole : null;
}
