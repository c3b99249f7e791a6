// What an (ε, δ) guarantee allows: the bound of docs/proofs/risk.md, for δ = 10⁻⁶.
(() => {
  const DELTA = 1e-6;

  function bound(epsilon, rate) {
    const grown = DELTA + Math.exp(epsilon) * rate;
    const missed = 1 - Math.exp(-epsilon) * (1 - DELTA - rate);
    return Math.min(1, grown, missed);
  }

  function percent(share) {
    const value = 100 * share; // rounded up, like the privacy card
    if (value > 99.9) return "100 %";
    const digits = value < 1 ? 2 : 1;
    return `${Math.ceil(value * 10 ** digits - 1e-9) / 10 ** digits} %`;
  }

  function show() {
    const form = document.getElementById("risk");
    if (!form) return;
    const slider = document.getElementById("risk-epsilon");
    const rate = document.getElementById("risk-rate");
    const epsilon = Number((10 ** Number(slider.value)).toPrecision(2));
    const often = rate.options[rate.selectedIndex].text;
    document.getElementById("risk-shown").textContent = epsilon;
    slider.setAttribute("aria-valuetext", `ε = ${epsilon}`);
    const text = document.getElementById("risk-text");
    const found = document.createElement("strong");
    found.textContent = percent(bound(epsilon, Number(rate.value)));
    text.replaceChildren(
      `An attacker who wrongly accuses ${often} of the people outside the table finds at most `,
      found,
      ` of those in it. Guessing finds ${percent(Number(rate.value))}.`,
    );
  }

  document.addEventListener("DOMContentLoaded", () => {
    const form = document.getElementById("risk");
    if (!form) return;
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    show();
  });
})();
