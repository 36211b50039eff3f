SELECT campaign, count(*) AS clicks, count(DISTINCT visitor) AS visitors
FROM {{ ref('campaign_clicks') }}
GROUP BY campaign
