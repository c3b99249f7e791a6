// What an ε means: the bounds of discreet.card.risk.budget_success, which the form carries.
(() => {
  function show(form) {
    const bounds = JSON.parse(form.dataset.bounds);
    const slider = document.getElementById("risk-epsilon");
    const rate = document.getElementById("risk-rate");
    const [epsilon, found] = bounds[Number(slider.value)];
    const often = rate.options[rate.selectedIndex].text;
    document.getElementById("risk-shown").textContent = epsilon;
    slider.setAttribute("aria-valuetext", `ε = ${epsilon}`);
    const text = document.getElementById("risk-text");
    const share = document.createElement("strong");
    share.textContent = found[rate.selectedIndex];
    text.replaceChildren(
      `An attacker who wrongly accuses ${often} of the people outside the table finds at most `,
      share,
      ` of those in it. Guessing finds ${Number((100 * rate.value).toPrecision(2))} %.`,
    );
  }

  document.addEventListener("DOMContentLoaded", () => {
    const form = document.getElementById("risk");
    if (!form) return;
    form.addEventListener("input", () => show(form));
    form.addEventListener("submit", (event) => event.preventDefault());
    show(form);
  });
})();
